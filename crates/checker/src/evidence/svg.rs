//! Evidence as a picture: a lane a process, a bar from each invocation to its completion.

use super::Evidence;
use std::collections::BTreeMap;
use std::fmt::Write;

const LANE: usize = 46;
const TOP: usize = 64;
const LEFT: usize = 110;
const COLUMN: usize = 26;
/// Width of a character, roughly.
const CHARACTER: usize = 8;
/// Operations drawn at most.
const DRAWN_MAX: usize = 200;

impl Evidence {
    /// An SVG of the core: lanes, bars in order of the events, the number of each operation in the longest order,
    /// and the operation that fits into none in red.
    pub fn svg(&self) -> String {
        let drawn = &self.operations[..self.operations.len().min(DRAWN_MAX)];
        let mut lanes: BTreeMap<u64, usize> = drawn.iter().map(|shown| (shown.process, 0)).collect();
        lanes.values_mut().enumerate().for_each(|(at, lane)| *lane = at);
        let columns = self.picture_columns();
        // The bar of an operation whose end nobody saw reaches to the right edge, and its label must fit in.
        let ends = drawn
            .iter()
            .map(|shown| columns[shown.begin as usize] + (shown.text.chars().count() + 6) * CHARACTER);
        let right = ends.chain(columns.last().copied()).max().unwrap_or(LEFT) + 60;
        let sentence = wrap(&self.sentence, (right.max(900) - 32) / (CHARACTER - 1));
        let top = TOP + 18 * sentence.len();
        let (width, height) = (right.max(900) + 20, top + LANE * lanes.len() + 70);
        let mut svg = String::new();
        let mut put = |text: String| {
            svg.push_str(&text);
            svg.push('\n');
        };
        put(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} \
             {height}\" font-family=\"sans-serif\" font-size=\"13\">"
        ));
        put(format!("<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"));
        for (line, text) in sentence.iter().enumerate() {
            put(format!("<text x=\"16\" y=\"{}\" fill=\"#222222\">{}</text>", 30 + 18 * line, escape(text)));
        }
        for (process, lane) in &lanes {
            let y = top + LANE * lane;
            put(format!("<text x=\"16\" y=\"{}\" fill=\"#555555\">process {process}</text>", y + 20));
            put(format!(
                "<line x1=\"{LEFT}\" y1=\"{0}\" x2=\"{right}\" y2=\"{0}\" stroke=\"#eeeeee\"/>",
                y + 38
            ));
        }
        for (at, shown) in drawn.iter().enumerate() {
            let y = top + LANE * lanes[&shown.process];
            let begin = columns[shown.begin as usize];
            let end = shown.end.map_or(right, |end| columns[end as usize]);
            let (fill, stroke) = self.colours(at);
            // Nobody saw the end of an indeterminate operation: its bar has a broken edge and reaches to the right.
            let dashes = if shown.end.is_some() { "" } else { " stroke-dasharray=\"4 3\"" };
            put(format!(
                "<rect x=\"{begin}\" y=\"{y}\" width=\"{}\" height=\"30\" rx=\"4\" fill=\"{fill}\" stroke=\"{stroke}\"{dashes}>\
                 <title>{}</title></rect>",
                end - begin,
                escape(&self.title(at)),
            ));
            let mark = self.mark(at);
            let label = if mark.is_empty() { shown.text.clone() } else { format!("{mark}  {}", shown.text) };
            put(format!(
                "<text x=\"{}\" y=\"{}\" fill=\"#111111\">{}</text>",
                begin + 8,
                y + 20,
                escape(&label)
            ));
        }
        let order = if self.order.is_empty() {
            String::new()
        } else {
            format!("1, 2, …: the longest order that goes well, from {} to {}.  ", self.start, self.state)
        };
        if let Some(others) = self.left_out() {
            let y = height - 38;
            put(format!(
                "<text x=\"16\" y=\"{y}\" fill=\"#555555\">Not shown one by one: {}.</text>",
                escape(&others)
            ));
        }
        put(format!(
            "<text x=\"16\" y=\"{}\" fill=\"#555555\">{}Red (!): fits into no order.  In order of the events, not to scale.</text>",
            height - 20,
            escape(&order),
        ));
        put("</svg>".to_owned());
        svg
    }

    fn colours(&self, at: usize) -> (&'static str, &'static str) {
        if at == self.stuck {
            ("#f6b3ab", "#c0392b")
        } else if self.order.contains(&at) {
            ("#cfe3f5", "#3a78b0")
        } else {
            ("#eeeeee", "#999999")
        }
    }

    fn title(&self, at: usize) -> String {
        let shown = &self.operations[at];
        let end = shown.complete_index.map_or("never seen".to_owned(), |index| index.to_string());
        format!("{} (events {} and {end})", shown.text, shown.invoke_index)
    }

    /// The x of each event, with room for labels.
    fn picture_columns(&self) -> Vec<usize> {
        let last = self.operations.iter().map(|shown| shown.end.unwrap_or(shown.begin)).max().unwrap_or(0);
        let mut columns = vec![LEFT; last as usize + 1];
        let mut room = vec![0; columns.len()];
        let mut begins: Vec<Option<usize>> = vec![None; columns.len()];
        for (at, shown) in self.operations.iter().enumerate() {
            begins[shown.begin as usize] = Some(at);
        }
        for place in 0..columns.len() {
            let after = if place == 0 { LEFT } else { columns[place - 1] + COLUMN };
            columns[place] = after.max(room[place]);
            if let Some(at) = begins[place] {
                let label = self.operations[at].text.chars().count() + self.mark(at).len() + 2;
                let end = self.operations[at].end.unwrap_or(last) as usize;
                room[end] = room[end].max(columns[place] + label * CHARACTER + 16);
            }
        }
        columns
    }
}

/// Lines of at most so many characters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + word.chars().count() >= width {
            lines.push(word.to_owned());
        } else {
            let _ = write!(line, "{}{word}", if line.is_empty() { "" } else { " " });
        }
    }
    lines
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
