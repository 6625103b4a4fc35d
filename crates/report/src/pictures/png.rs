//! The PNG of a picture: its SVG in the light colours, drawn with a font that the program brings along.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};
use std::sync::{Arc, LazyLock};

/// Pixels of the PNG for one of the SVG: sharp on today's screens.
const SCALE: f32 = 2.0;

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(include_bytes!("fonts/DejaVuSans.ttf").to_vec());
    fonts.load_font_data(include_bytes!("fonts/DejaVuSans-Bold.ttf").to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    Arc::new(fonts)
});

/// Draws a picture of this program once more as PNG.
pub fn png(svg: &str) -> Vec<u8> {
    let options = Options { fontdb: FONTS.clone(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).expect("what plotters draws is SVG");
    let size = tree.size();
    let (width, height) = ((size.width() * SCALE) as u32, (size.height() * SCALE) as u32);
    let mut pixels = Pixmap::new(width.max(1), height.max(1)).expect("a picture of at least one pixel");
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().expect("writing into memory does not fail")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pictures::canvas::{Anchor, picture};
    use crate::pictures::palette;

    #[test]
    fn letters_and_shapes_are_drawn() {
        let drawn = |text: &str| {
            png(&picture(80, 20, "a word", |canvas| {
                canvas.text((10, 10), text, 12.0, palette::INK, Anchor::Start);
            }))
        };
        let pixels = Pixmap::decode_png(&drawn("word")).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (160, 40));
        let dark = pixels.pixels().iter().filter(|pixel| pixel.red() < 128).count();
        assert!(dark > 50, "{dark} dark pixels");
        assert_ne!(drawn("word"), drawn("sword"));
    }

    #[test]
    fn any_text_is_drawn() {
        let all = (0..=0xffff).filter_map(char::from_u32).collect::<String>();
        let svg = picture(80, 20, &all, |canvas| {
            canvas.text((10, 10), &all, 12.0, palette::INK, Anchor::Start);
        });
        assert!(Tree::from_str(&svg, &Options::default()).is_ok());
    }
}
