//! The colour and dash of each transport, from its place in the catalogue.
//!
//! Two neighbours of the catalogue share a colour and differ in their dash, so that a protocol and
//! its variant look related. Ideal schedulers are grey: they are the reference of all others.

/// A colour as red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rgb(pub u8, pub u8, pub u8);

/// As in `#0072b2`.
impl std::fmt::Display for Rgb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

const fn rgb(hex: u32) -> Rgb {
    Rgb((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

/// A colour on a white page, and its counterpart on a dark one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Colour {
    /// On white.
    pub light: Rgb,
    /// On a dark page.
    pub dark: Rgb,
}

/// Colours of transports, then the grey of ideal schedulers. They are chosen by a search for the
/// greatest distance between any two, as seen with normal vision, protanopia and deuteranopia.
const COLOURS: [Colour; 9] = [
    Colour { light: rgb(0x1b1f24), dark: rgb(0xe8ebef) }, // ink
    Colour { light: rgb(0xd6a90c), dark: rgb(0xe49a44) }, // amber
    Colour { light: rgb(0xd416a9), dark: rgb(0xff46b2) }, // magenta
    Colour { light: rgb(0x23a877), dark: rgb(0x5ef374) }, // green
    Colour { light: rgb(0xc31001), dark: rgb(0xce2418) }, // red
    Colour { light: rgb(0x255bec), dark: rgb(0x0161d9) }, // blue
    Colour { light: rgb(0x31b8ff), dark: rgb(0x4dc5ff) }, // sky
    Colour { light: rgb(0x521d87), dark: rgb(0xa379ff) }, // violet
    GREY,
];
const GREY: Colour = Colour { light: rgb(0x646464), dark: rgb(0x6e6e6e) };

/// How many colours transports have.
const HUES: usize = COLOURS.len() - 1;

/// How a line is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dash {
    /// Not at all.
    Solid,
    /// Dashes.
    Dashed,
    /// Dots.
    Dotted,
    /// A dash and a dot in turn.
    DashDotted,
    /// Long dashes.
    LongDashed,
}

impl Dash {
    const ALL: [Dash; 5] =
        [Dash::Solid, Dash::Dashed, Dash::Dotted, Dash::DashDotted, Dash::LongDashed];

    /// As SVG's `stroke-dasharray`; empty for a solid line.
    pub fn pattern(self) -> &'static str {
        match self {
            Dash::Solid => "",
            Dash::Dashed => "9 5",
            Dash::Dotted => "2.5 4",
            Dash::DashDotted => "12 4 2.5 4",
            Dash::LongDashed => "20 6",
        }
    }
}

/// The look of a transport in every plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LineStyle {
    /// Its colour.
    pub colour: Colour,
    /// Its line.
    pub dash: Dash,
}

/// The looks of all transports and ideal schedulers of a program.
#[derive(Clone, Debug, Default)]
pub struct Palette {
    transports: Vec<String>,
    ideal: Vec<String>,
}

impl Palette {
    /// From the names of the catalogue, in its order: transports, then ideal schedulers.
    pub fn new<'a>(
        transports: impl IntoIterator<Item = &'a str>,
        ideal: impl IntoIterator<Item = &'a str>,
    ) -> Palette {
        Palette {
            transports: transports.into_iter().map(str::to_owned).collect(),
            ideal: ideal.into_iter().map(str::to_owned).collect(),
        }
    }

    /// The look of a name of the catalogue; none for other names.
    fn own(&self, name: &str) -> Option<LineStyle> {
        // `optimal (bound)` is the scheduler `optimal`.
        let name = name.split(" (").next().unwrap_or(name);
        if let Some(place) = self.ideal.iter().position(|known| known == name) {
            return Some(LineStyle { colour: GREY, dash: Dash::ALL[place % Dash::ALL.len()] });
        }
        Some(nth(self.transports.iter().position(|known| known == name)?))
    }

    /// The looks of names shown together. A name of the catalogue has the same look everywhere;
    /// any other name, such as a mix of transports, takes the next look that is free.
    pub fn styles<'a, I>(&self, names: I) -> Vec<LineStyle>
    where
        I: IntoIterator<Item = &'a str>,
        I::IntoIter: Clone,
    {
        let names = names.into_iter();
        let reserved: Vec<LineStyle> = names.clone().filter_map(|name| self.own(name)).collect();
        let mut taken: Vec<LineStyle> = Vec::new();
        for name in names {
            let own = self.own(name).filter(|style| !taken.contains(style));
            let free = || {
                // From the end of the catalogue on, so that these look like no known transport.
                let from = self.transports.len();
                let all = (0..STYLES).map(|i| nth(from + i));
                all.into_iter().find(|style| !taken.contains(style) && !reserved.contains(style))
            };
            let style = own.or_else(free).unwrap_or(nth(taken.len()));
            taken.push(style);
        }
        taken
    }
}

/// How many looks of transports there are.
const STYLES: usize = HUES * 4;

/// The look at a place of the catalogue: colours in turn, each solid then dashed; once all are
/// taken, each dotted then dash-dotted.
fn nth(place: usize) -> LineStyle {
    let place = place % STYLES;
    let dash = Dash::ALL[2 * (place / (2 * HUES)) + place % 2];
    LineStyle { colour: COLOURS[place / 2 % HUES], dash }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Linear light of red, green and blue.
    fn linear(Rgb(r, g, b): Rgb) -> [f64; 3] {
        [r, g, b].map(|channel| {
            let c = f64::from(channel) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { libm::pow((c + 0.055) / 1.055, 2.4) }
        })
    }

    fn product(matrix: &[[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(v).map(|(m, v)| m * v).sum())
    }

    /// Björn Ottosson's Oklab, in which distances are even.
    fn oklab(light: [f64; 3]) -> [f64; 3] {
        const CONES: [[f64; 3]; 3] = [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ];
        const LAB: [[f64; 3]; 3] = [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ];
        product(&LAB, product(&CONES, light).map(libm::cbrt))
    }

    /// Machado, Oliveira and Fernandes (2009), severity 1: what a person with that vision sees.
    const VISIONS: [(&str, [[f64; 3]; 3]); 3] = [
        ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ],
        ),
        (
            "deuteranopia",
            [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ],
        ),
    ];

    /// Distance of two colours in hundredths of Oklab; 2 is just noticeable.
    fn distance(a: Rgb, b: Rgb, vision: &[[f64; 3]; 3]) -> f64 {
        let seen = |c| oklab(product(vision, linear(c)).map(|v: f64| v.clamp(0.0, 1.0)));
        let (a, b) = (seen(a), seen(b));
        100.0 * libm::sqrt(a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum())
    }

    /// WCAG's contrast ratio.
    fn contrast(a: Rgb, b: Rgb) -> f64 {
        let luminance = |c| {
            let [r, g, b] = linear(c);
            0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05
        };
        let (a, b) = (luminance(a), luminance(b));
        a.max(b) / a.min(b)
    }

    #[test]
    fn colours_are_told_apart_by_colour_blind_readers_on_both_pages() {
        for (i, a) in COLOURS.iter().enumerate() {
            for b in &COLOURS[..i] {
                for (vision, matrix) in &VISIONS {
                    for (a, b) in [(a.light, b.light), (a.dark, b.dark)] {
                        let far = distance(a, b, matrix);
                        let least = if *vision == "normal" { 19.0 } else { 10.0 };
                        assert!(far >= least, "{a} and {b}: {far:.1} with {vision}");
                    }
                }
            }
            // Against the cards of the page, as in report.css.
            assert!(contrast(a.light, rgb(0xffffff)) >= 2.0, "{}", a.light);
            assert!(contrast(a.dark, rgb(0x181c22)) >= 3.0, "{}", a.dark);
        }
    }

    fn palette(transports: usize) -> (Palette, Vec<String>) {
        let names: Vec<String> = (0..transports).map(|i| format!("transport {i}")).collect();
        let ideal = ["fair", "edf", "sjf", "reservation", "optimal"];
        let palette = Palette::new(names.iter().map(String::as_str), ideal);
        let all = names.iter().map(String::as_str).chain(ideal).map(str::to_owned).collect();
        (palette, all)
    }

    #[test]
    fn no_two_of_the_catalogue_look_the_same() {
        let (palette, names) = palette(STYLES);
        let looks: HashSet<_> =
            palette.styles(names.iter().map(String::as_str)).into_iter().collect();
        assert_eq!(looks.len(), STYLES + 5);
    }

    #[test]
    fn a_look_does_not_depend_on_what_is_shown_beside_it() {
        let (palette, names) = palette(14);
        let all = palette.styles(names.iter().map(String::as_str));
        for (name, style) in names.iter().zip(&all) {
            assert_eq!(palette.styles(["a mix", name.as_str()])[1], *style, "{name}");
        }
        assert_eq!(palette.styles(["optimal (bound)"])[0], all[18]);
        // The first transports have different colours, each solid.
        assert_eq!(
            (all[0].dash, all[1].dash, all[2].dash),
            (Dash::Solid, Dash::Dashed, Dash::Solid)
        );
        assert_eq!(all[0].colour, all[1].colour);
        assert_ne!(all[0].colour, all[2].colour);
    }

    #[test]
    fn names_outside_the_catalogue_take_looks_that_are_free() {
        let (palette, _) = palette(14);
        let names: Vec<String> = (0..20).map(|i| format!("mix {i}")).collect();
        let looks: HashSet<_> =
            palette.styles(names.iter().map(String::as_str)).into_iter().collect();
        assert_eq!(looks.len(), 20);
        let twice = palette.styles(["transport 3", "transport 3"]);
        assert_ne!(twice[0], twice[1]);
    }
}
