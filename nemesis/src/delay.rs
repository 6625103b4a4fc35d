//! `delay`: packets take longer, from a tenth of the TTL to twice as much: an answer that comes too late, a write that
//! arrives when the lease has run out.

use crate::Scene;
use crate::network::{Dose, Look, Words, WorseWay, draw_log};
use crate::tools::packets::{Distribution, Echoes, Impairment};
use fencepost_history::Stream;
use rand::RngExt;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

pub(crate) const DELAY: WorseWay = WorseWay {
    name: "delay",
    about: "holds packets back, with jitter, so that round trips take from a tenth to twice the TTL",
    field: "delay_ms",
    asks: |asked| asked.delay_ms > 0.0,
    draw,
    look: Look { echoes: |_| (5, 84), shows },
    words: Words {
        sentence: held_back,
        label: |asked| format!("delay {} ms", asked.delay_ms),
        summary: "packets were held back",
    },
};

fn draw(scene: &Scene, random: &mut Stream) -> Value {
    let ways = ["both", "out", "in"].choose(random);
    let round_trip_ms = scene.ttl.as_secs_f64() * 1e3 * draw_log(0.1, 2.0, random);
    let both = ways == Some(&"both");
    let delay_ms = (if both { round_trip_ms / 2.0 } else { round_trip_ms }).round();
    // Half of the delays are steady, which keeps packets in order.
    let jitter_ms =
        if random.random_bool(0.5) { (delay_ms * random.random_range(0.0..0.5)).round() } else { 0.0 };
    let distribution = [Distribution::Uniform, Distribution::Normal, Distribution::Pareto].choose(random);
    json!({"delay_ms": delay_ms, "jitter_ms": jitter_ms, "distribution": distribution, "ways": ways})
}

/// Round trips take at least half as much longer as was asked for, or none has ended yet.
fn shows(dose: &Dose, before: &Echoes, after: &Echoes) -> bool {
    let was_ms = before.median_ms.unwrap_or(0.0);
    after.median_ms.is_none_or(|is_ms| is_ms >= was_ms + dose.round_trip_ms() / 2.0)
}

fn held_back(asked: &Impairment) -> String {
    let jitter = match asked.jitter_ms {
        jitter_ms if jitter_ms > 0.0 => format!(", give or take {jitter_ms} ms"),
        _ => String::new(),
    };
    format!("each packet was held back for {} ms{jitter}", asked.delay_ms)
}
