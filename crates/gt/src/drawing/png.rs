//! SVG drawings as PNG pictures.
//!
//! The text of a picture needs a font. The program has one in it, so that pictures are the same on
//! machines with other fonts, or with none:
//!
//! ```text
//! pyftsubset DejaVuSans.ttf --no-hinting --layout-features=kern \
//!     --unicodes=U+0020-007E,U+00A0-017F,U+0370-03FF,U+0400-045F,U+2010-2026,U+2190-2194,U+2212 \
//!     --output-file=DejaVuSans-subset.ttf
//! ```

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

const FONT: &[u8] = include_bytes!("font/DejaVuSans-subset.ttf");
/// Pixels per unit of the drawing, for sharp text on dense screens.
const SCALE: f32 = 2.0;
/// Most pixels of a side.
const MOST_PIXELS: f32 = 8_000.0;

/// Why a drawing cannot become a picture.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The drawing is not an SVG file that can be read.
    #[error("the drawing cannot be read: {0}")]
    Svg(#[from] resvg::usvg::Error),
    /// The memory of the picture cannot be had.
    #[error("a picture of {0} x {1} pixels is too large; write .svg instead")]
    Size(u32, u32),
    /// The encoder refused.
    #[error("the picture cannot be written: {0}")]
    Encoding(String),
}

/// The bytes of a PNG picture of an SVG drawing, two pixels per unit; large drawings have fewer.
///
/// # Errors
/// If the drawing is not valid SVG, or too large.
pub fn to_png(svg: &str) -> Result<Vec<u8>, PngError> {
    let mut options = Options::default();
    let fonts = options.fontdb_mut();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let tree = Tree::from_str(svg, &options)?;
    let (width, height) = (tree.size().width(), tree.size().height());
    let scale = SCALE.min(MOST_PIXELS / width.max(height));
    let pixels = [width, height].map(|side| ((side * scale).ceil() as u32).max(1));
    let mut picture = Pixmap::new(pixels[0], pixels[1]).ok_or(PngError::Size(pixels[0], pixels[1]))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut picture.as_mut());
    picture.encode_png().map_err(|error| PngError::Encoding(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::Picture;

    fn picture(title: &str) -> Pixmap {
        let picture = Picture {
            title: title.into(),
            nodes: 2,
            structure: &[(0, 1)],
            edges: &[(0, 1)],
            weights: &[0.5],
            categories: Some(("kind", &[0, 1])),
        };
        Pixmap::decode_png(&to_png(&picture.svg()).unwrap()).unwrap()
    }

    /// Dark pixels in the band of the title.
    fn ink(picture: &Pixmap) -> usize {
        let band = &picture.pixels()[..(44.0 * SCALE) as usize * picture.width() as usize];
        band.iter().filter(|pixel| pixel.red() < 128).count()
    }

    #[test]
    fn text_appears_without_fonts_of_the_machine() {
        let (none, latin, more) = (picture(" "), picture("mine"), picture("mine · граф Ω"));
        assert_eq!(ink(&none), 0);
        assert!(ink(&latin) > 100 && ink(&more) > 2 * ink(&latin), "{} and {}", ink(&latin), ink(&more));
        assert_eq!(none.width(), 2 * 460);
    }

    #[test]
    fn large_drawings_have_fewer_pixels() {
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"16000\" height=\"20\"/>";
        let picture = Pixmap::decode_png(&to_png(svg).unwrap()).unwrap();
        assert_eq!((picture.width(), picture.height()), (8_000, 10));
        assert!(matches!(to_png("<svg"), Err(PngError::Svg(_))));
    }
}
