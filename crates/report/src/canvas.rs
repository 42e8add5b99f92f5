//! Lines, boxes and text on SVG and PNG alike.
//!
//! Coordinates are units from the top left. Both outputs are drawn on a grid of [`SUBPIXELS`] per
//! unit, which for PNG is then averaged down to [`PIXELS`] per unit: that smooths all edges. Every
//! line of these figures is horizontal or vertical, so a bitmap needs boxes only. Drawing into
//! memory cannot fail, so what the backends return is not looked at.

use crate::font::{HANG, TextStyle};
use crate::palette::{Colour, Dash};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, DrawingBackend};
use plotters_bitmap::BitMapBackend;
use plotters_svg::SVGBackend;

/// Grid points per unit.
pub(crate) const SUBPIXELS: u32 = 4;
/// Pixels of a PNG per unit.
const PIXELS: u32 = 2;
/// Grid points averaged into a pixel, each way.
const AVERAGED: u32 = SUBPIXELS / PIXELS;

/// A point, in units.
pub(crate) type Point = (f64, f64);

enum Backend<'a> {
    Svg(SVGBackend<'a>),
    Bitmap(BitMapBackend<'a>),
}

/// What a figure is drawn on.
pub(crate) struct Canvas<'a>(Backend<'a>);

/// A line's look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stroke {
    pub(crate) colour: Colour,
    pub(crate) width: f64,
    pub(crate) dash: Dash,
}

impl Stroke {
    pub(crate) fn solid(colour: Colour, width: f64) -> Stroke {
        Stroke { colour, width, dash: Dash::Solid }
    }
}

impl BackendStyle for Stroke {
    fn color(&self) -> BackendColor {
        BackendColor { alpha: 1.0, rgb: self.colour.rgb() }
    }
    fn stroke_width(&self) -> u32 {
        grid(self.width).max(1) as u32
    }
}

fn grid(units: f64) -> i32 {
    libm::round(units * f64::from(SUBPIXELS)) as i32
}

fn on_grid((x, y): Point) -> BackendCoord {
    (grid(x), grid(y))
}

impl Canvas<'_> {
    /// A path of horizontal and vertical lines.
    pub(crate) fn path(&mut self, points: &[Point], stroke: Stroke) {
        let points: Vec<_> = points.iter().copied().map(on_grid).collect();
        for piece in pieces(&simplified(&points), stroke) {
            self.piece(&piece, stroke);
        }
    }

    fn piece(&mut self, points: &[BackendCoord], stroke: Stroke) {
        match &mut self.0 {
            Backend::Svg(svg) => {
                let _ = svg.draw_path(points.iter().copied(), &stroke);
            }
            Backend::Bitmap(bitmap) => {
                let width = stroke.stroke_width() as i32;
                let (before, after) = (width / 2, width - width / 2);
                for line in points.windows(2) {
                    let ((x0, y0), (x1, y1)) = (line[0], line[1]);
                    let from = (x0.min(x1) - before, y0.min(y1) - before);
                    let to = (x0.max(x1) + after, y0.max(y1) + after);
                    let _ = bitmap.draw_rect(from, to, &stroke.color(), true);
                }
            }
        }
    }

    /// A filled box between two corners.
    pub(crate) fn fill(&mut self, from: Point, to: Point, colour: Colour) {
        let colour = BackendColor { alpha: 1.0, rgb: colour.rgb() };
        let (from, to) = (on_grid(from), on_grid(to));
        let _ = match &mut self.0 {
            Backend::Svg(svg) => svg.draw_rect(from, to, &colour, true).ok(),
            Backend::Bitmap(bitmap) => bitmap.draw_rect(from, to, &colour, true).ok(),
        };
    }

    /// A text whose baseline is at `at`.
    pub(crate) fn text(&mut self, text: &str, (x, y): Point, style: TextStyle) {
        let at = on_grid((x, y - HANG * style.size));
        let _ = match &mut self.0 {
            Backend::Svg(svg) => svg.draw_text(text, &style, at).ok(),
            Backend::Bitmap(bitmap) => bitmap.draw_text(text, &style, at).ok(),
        };
    }
}

/// The same path without points that add nothing: the picture of a million flows needs no more
/// points than the grid has.
fn simplified(points: &[BackendCoord]) -> Vec<BackendCoord> {
    let mut kept: Vec<BackendCoord> = Vec::new();
    for &point in points {
        if kept.last() == Some(&point) {
            continue;
        }
        if let [.., a, b] = kept[..] {
            let straight = (a.0 == b.0 && b.0 == point.0) || (a.1 == b.1 && b.1 == point.1);
            let onward = (b.0 - a.0).signum() == (point.0 - b.0).signum()
                && (b.1 - a.1).signum() == (point.1 - b.1).signum();
            if straight && onward {
                kept.pop();
            }
        }
        kept.push(point);
    }
    kept
}

/// A path cut into its dashes.
fn pieces(points: &[BackendCoord], stroke: Stroke) -> Vec<Vec<BackendCoord>> {
    let (on, off) = match stroke.dash {
        Dash::Solid => return vec![points.to_vec()],
        Dash::Dashed => (grid(4.0 * stroke.width), grid(2.2 * stroke.width)),
        Dash::Dotted => (grid(1.2 * stroke.width), grid(1.6 * stroke.width)),
    };
    let (mut pieces, mut drawing, mut left) = (Vec::new(), true, on);
    let mut piece: Vec<_> = points.first().copied().into_iter().collect();
    for line in points.windows(2) {
        let (mut at, to) = (line[0], line[1]);
        let step = ((to.0 - at.0).signum(), (to.1 - at.1).signum());
        loop {
            let rest = (to.0 - at.0).abs() + (to.1 - at.1).abs();
            let go = rest.min(left);
            at = (at.0 + step.0 * go, at.1 + step.1 * go);
            left -= go;
            if drawing && go > 0 {
                piece.push(at);
            }
            if left > 0 {
                break;
            }
            if drawing {
                pieces.push(std::mem::take(&mut piece));
            } else {
                piece.push(at);
            }
            drawing = !drawing;
            left = if drawing { on } else { off };
        }
    }
    if piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}

fn on_white((width, height): (u32, u32), canvas: &mut Canvas<'_>) {
    canvas.fill((0.0, 0.0), (f64::from(width), f64::from(height)), Colour::WHITE);
}

/// Draws to SVG.
pub(crate) fn svg(size: (u32, u32), draw: impl FnOnce(&mut Canvas<'_>)) -> String {
    let (width, height) = (size.0 * SUBPIXELS, size.1 * SUBPIXELS);
    let mut text = String::new();
    {
        let mut canvas = Canvas(Backend::Svg(SVGBackend::with_string(&mut text, (width, height))));
        on_white(size, &mut canvas);
        draw(&mut canvas);
        if let Backend::Svg(mut svg) = canvas.0 {
            let _ = svg.present();
        }
    }
    // The grid is finer than the unit: shown at its size in units, with the grid inside.
    let on_grid = format!("width=\"{width}\" height=\"{height}\"");
    let in_units = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
    text.replacen(&on_grid, &in_units, 1)
}

/// Draws to PNG.
pub(crate) fn png(size: (u32, u32), draw: impl FnOnce(&mut Canvas<'_>)) -> Vec<u8> {
    let (width, height) = (size.0 * SUBPIXELS, size.1 * SUBPIXELS);
    let mut fine = vec![0; width as usize * height as usize * 3];
    {
        let bitmap = BitMapBackend::with_buffer(&mut fine, (width, height));
        let mut canvas = Canvas(Backend::Bitmap(bitmap));
        on_white(size, &mut canvas);
        draw(&mut canvas);
    }
    encode(&averaged(&fine, width), width / AVERAGED, height / AVERAGED)
}

/// Each pixel the mean of a square of the fine ones.
fn averaged(fine: &[u8], width: u32) -> Vec<u8> {
    let (n, row_bytes) = (AVERAGED as usize, width as usize * 3);
    let mut coarse = Vec::with_capacity(fine.len() / (n * n));
    for rows in fine.chunks_exact(row_bytes * n) {
        for x in (0..width as usize).step_by(n) {
            for channel in 0..3 {
                let fine_at = |i: usize| rows[(i / n) * row_bytes + (x + i % n) * 3 + channel];
                let sum: u32 = (0..n * n).map(|i| u32::from(fine_at(i))).sum();
                let count = AVERAGED * AVERAGED;
                coarse.push(((sum + count / 2) / count) as u8);
            }
        }
    }
    coarse
}

fn encode(pixels: &[u8], width: u32, height: u32) -> Vec<u8> {
    const NEVER: &str = "a picture in memory can be encoded";
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    let mut writer = encoder.write_header().expect(NEVER);
    writer.write_image_data(pixels).expect(NEVER);
    writer.finish().expect(NEVER);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simplified_keeps_corners_only() {
        let points = [(0, 0), (1, 0), (1, 0), (5, 0), (5, 3), (5, 4), (5, 1), (7, 1)];
        assert_eq!(simplified(&points), [(0, 0), (5, 0), (5, 4), (5, 1), (7, 1)]);
    }

    #[test]
    fn dashes_go_round_corners() {
        let stroke = Stroke { colour: Colour::BLACK, width: 1.0, dash: Dash::Dashed };
        // 16 grid points on, 9 off.
        let dashes = pieces(&[(0, 0), (10, 0), (10, 40)], stroke);
        assert_eq!(dashes, [vec![(0, 0), (10, 0), (10, 6)], vec![(10, 15), (10, 31)]]);
    }

    #[test]
    fn boxes_and_lines_of_a_bitmap_are_as_large_as_they_should() {
        let (width, height) = (10 * SUBPIXELS, 10 * SUBPIXELS);
        let mut pixels = vec![0; (width * height * 3) as usize];
        let mut canvas =
            Canvas(Backend::Bitmap(BitMapBackend::with_buffer(&mut pixels, (width, height))));
        canvas.fill((1.0, 1.0), (3.0, 4.0), Colour::WHITE);
        canvas.path(&[(6.0, 6.0), (6.0, 8.0)], Stroke::solid(Colour::WHITE, 1.0));
        drop(canvas);
        let white = pixels.iter().filter(|value| **value == 255).count() as u32 / 3;
        // 2 by 3 units, and 1 by 2 units with half a unit at either end.
        assert_eq!(white, (6 + 3) * SUBPIXELS * SUBPIXELS);
    }

    #[test]
    fn averaged_takes_the_mean_of_squares() {
        let fine = [0, 0, 0, 255, 255, 255, 255, 0, 0, 255, 1, 255];
        assert_eq!(averaged(&fine, 2), [191, 64, 128]);
    }
}
