//! The font that figures carry: Noto Sans, from a crate, under the Apache licence.

use crate::canvas::SUBPIXELS;
use ab_glyph::{Font, FontRef, ScaleFont};
use plotters_backend::{
    BackendColor, BackendTextStyle, FontFamily, FontStyle, FontTransform,
    text_anchor::{HPos, Pos, VPos},
};
use std::convert::Infallible;
use std::sync::LazyLock;

/// What a viewer of an SVG file may use. Their widths are close to that of the first.
const FAMILIES: &str = "Noto Sans, Open Sans, Helvetica, Arial, sans-serif";

static REGULAR: LazyLock<FontRef<'static>> = LazyLock::new(|| load(ttf_noto_sans::REGULAR));
static BOLD: LazyLock<FontRef<'static>> = LazyLock::new(|| load(ttf_noto_sans::BOLD));

fn load(bytes: &'static [u8]) -> FontRef<'static> {
    FontRef::try_from_slice(bytes).expect("the font is part of the program")
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// To the right of it.
    Left,
    /// Around it.
    Centre,
    /// To the left of it.
    Right,
}

/// How a text looks. Its point is on its baseline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextStyle {
    /// Size of the em square, in units.
    pub(crate) size: f64,
    pub(crate) bold: bool,
    pub(crate) colour: (u8, u8, u8),
    pub(crate) align: Align,
}

impl TextStyle {
    fn font(&self) -> &'static FontRef<'static> {
        if self.bold { &BOLD } else { &REGULAR }
    }

    /// Width of a text, in units.
    pub(crate) fn width(&self, text: &str) -> f64 {
        self.advance(text, self.size as f32, |_, _| {}) as f64
    }

    /// Calls `glyph` with every character and where it stands; returns where the next would.
    fn advance(&self, text: &str, em: f32, mut glyph: impl FnMut(char, f32)) -> f32 {
        let font = self.font();
        let units = font.units_per_em().expect("the font is scalable");
        let font = font.as_scaled(em * font.height_unscaled() / units);
        let (mut x, mut previous) = (0.0, None);
        for character in text.chars() {
            let id = font.glyph_id(character);
            if let Some(previous) = previous {
                x += font.kern(previous, id);
            }
            glyph(character, x);
            x += font.h_advance(id);
            previous = Some(id);
        }
        x
    }
}

/// The distance from a point to the baseline that `plotters` gives text hung from that point, in
/// ems.
pub(crate) const HANG: f64 = 0.76;

impl BackendTextStyle for TextStyle {
    type FontError = Infallible;

    fn color(&self) -> BackendColor {
        BackendColor { alpha: 1.0, rgb: self.colour }
    }
    fn size(&self) -> f64 {
        // What plotters calls the size of a font is 1.24 ems.
        self.size * 1.24 * f64::from(SUBPIXELS)
    }
    fn transform(&self) -> FontTransform {
        FontTransform::None
    }
    fn style(&self) -> FontStyle {
        if self.bold { FontStyle::Bold } else { FontStyle::Normal }
    }
    fn anchor(&self) -> Pos {
        let h_pos = match self.align {
            Align::Left => HPos::Left,
            Align::Centre => HPos::Center,
            Align::Right => HPos::Right,
        };
        Pos::new(h_pos, VPos::Top)
    }
    fn family(&self) -> FontFamily<'_> {
        FontFamily::Name(FAMILIES)
    }
    fn layout_box(&self, text: &str) -> Result<((i32, i32), (i32, i32)), Infallible> {
        let pixels = |units: f64| (units * f64::from(SUBPIXELS)) as i32;
        Ok(((0, 0), (pixels(self.width(text)), pixels(self.size))))
    }
    fn draw<E, D: FnMut(i32, i32, BackendColor) -> Result<(), E>>(
        &self,
        text: &str,
        (left, top): (i32, i32),
        mut draw: D,
    ) -> Result<Result<(), E>, Infallible> {
        let em = (self.size * f64::from(SUBPIXELS)) as f32;
        let font = self.font();
        let units = font.units_per_em().expect("the font is scalable");
        let scale = em * font.height_unscaled() / units;
        let baseline = HANG as f32 * em;
        let mut drawn = Ok(());
        self.advance(text, em, |character, x| {
            let at = ab_glyph::point(left as f32 + x, top as f32 + baseline);
            let glyph = font.glyph_id(character).with_scale_and_position(scale, at);
            let Some(outline) = font.outline_glyph(glyph) else {
                return;
            };
            let corner = outline.px_bounds().min;
            outline.draw(|x, y, coverage| {
                if drawn.is_ok() && coverage > 0.0 {
                    let alpha = f64::from(coverage.min(1.0));
                    let colour = BackendColor { alpha, rgb: self.colour };
                    drawn = draw(corner.x as i32 + x as i32, corner.y as i32 + y as i32, colour);
                }
            });
        });
        Ok(drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_that_figures_use_is_in_the_font() {
        for font in [&*REGULAR, &*BOLD] {
            for character in ('!'..='~').chain("µ±–…·×é".chars()) {
                assert_ne!(font.glyph_id(character).0, 0, "{character}");
            }
        }
    }

    #[test]
    fn width_grows_with_text_and_size() {
        let style = |size| TextStyle { size, bold: false, colour: (0, 0, 0), align: Align::Left };
        assert!(style(12.0).width("mm") > style(12.0).width("ii"));
        let ratio = style(24.0).width("deadline") / style(12.0).width("deadline");
        assert!((ratio - 2.0).abs() < 1e-3, "{ratio}");
        assert_eq!(style(12.0).width(""), 0.0);
    }
}
