//! The colour and dash of each transport, from its place in the catalogue.
//!
//! Each transport has a colour of its own. The second, fourth … of the catalogue are also dashed.
//! Ideal schedulers are grey and differ in their dash: they are the reference of all others.

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

const fn colour(light: u32, dark: u32) -> Colour {
    Colour { light: rgb(light), dark: rgb(dark) }
}

/// Colours of transports: pairs of one hue, black and grey first. A search chose them for the
/// greatest distance between any two, the grey of ideal schedulers included, as seen with normal
/// vision, protanopia, deuteranopia and tritanopia; a test asserts the distances.
const COLOURS: [Colour; 16] = [
    colour(0x191919, 0xffffff),
    colour(0xa4a4a4, 0xa7a7a7),
    colour(0xd48100, 0xffb66b),
    colour(0xceb805, 0xf0d703),
    colour(0x920169, 0xb50eb4),
    colour(0xcf54b6, 0xdf008b),
    colour(0x16a95d, 0x00ab40),
    colour(0x68cb89, 0x05ffa7),
    colour(0x9c1104, 0xb83c00),
    colour(0xd70013, 0xf96a00),
    colour(0x1249e9, 0x377dff),
    colour(0xb6aff8, 0x8d91ff),
    colour(0x067bff, 0x05c1ff),
    colour(0x025789, 0x7fe0fe),
    colour(0x5923bf, 0x8d32e2),
    colour(0x888bf8, 0xae7cba),
];
const GREY: Colour = colour(0x747474, 0x676767);

/// The dash pattern of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dash {
    /// A solid line.
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
            Dash::LongDashed => "14 3",
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
    /// The palette of the names of a catalogue, in its order: transports, then ideal schedulers.
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

    /// The looks of names shown together. A name of the catalogue has the same look everywhere. If it
    /// is there twice, as in `d3 (testbed)` and `d3 (simulator)`, the second has the same colour and
    /// another dash. Any other name, such as a mix of transports, takes the next look that is free.
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
                let all = (0..STYLES).map(|i| nth(self.transports.len() + i));
                let used = || taken.iter().chain(&reserved);
                let has_own_colour = |style: &LineStyle| used().all(|u| u.colour != style.colour);
                let is_free = |style: &LineStyle| used().all(|u| u != style);
                all.clone().find(has_own_colour).or_else(|| all.clone().find(is_free))
            };
            let other_dash = || {
                let colour = self.own(name).filter(|_| name.contains(" ("))?.colour;
                let mut all = Dash::ALL.into_iter().map(|dash| LineStyle { colour, dash });
                all.find(|style| !taken.contains(style) && !reserved.contains(style))
            };
            let style = own.or_else(other_dash).or_else(free).unwrap_or(nth(taken.len()));
            taken.push(style);
        }
        taken
    }
}

/// The number of different line styles of transports.
const STYLES: usize = COLOURS.len() * 2;

/// The line style at a place of the catalogue: colours in turn, solid and dashed.
///
/// Once all are taken, the colours repeat, dotted and dash-dotted.
fn nth(place: usize) -> LineStyle {
    let place = place % STYLES;
    let dash = Dash::ALL[2 * (place / COLOURS.len()) + place % 2];
    LineStyle { colour: COLOURS[place % COLOURS.len()], dash }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_transport_run_in_two_ways_has_one_colour_and_two_dashes() {
        let palette = Palette::new(["tcp", "d3", "ndp"], ["optimal"]);
        let names = ["d3 (testbed)", "d3 (simulator)", "kernel-reno (testbed)", "tcp (simulator)"];
        let [real, simulated, kernel, tcp] = palette.styles(names)[..] else { panic!() };
        assert_eq!(real, palette.styles(["d3"])[0]);
        assert_eq!(simulated.colour, real.colour);
        assert_ne!(simulated.dash, real.dash);
        assert_ne!(kernel.colour, tcp.colour);
    }

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

    /// Name, the least distance of two colours, and what a person with that vision sees: Machado,
    /// Oliveira and Fernandes (2009), severity 1.
    const VISIONS: [(&str, f64, [[f64; 3]; 3]); 4] = [
        ("normal", 10.0, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            6.0,
            [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ],
        ),
        (
            "deuteranopia",
            6.0,
            [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ],
        ),
        (
            "tritanopia",
            5.0,
            [
                [1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900],
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
        let all: Vec<Colour> = COLOURS.into_iter().chain([GREY]).collect();
        for (i, a) in all.iter().enumerate() {
            for b in &all[..i] {
                for (vision, least, matrix) in &VISIONS {
                    for (a, b) in [(a.light, b.light), (a.dark, b.dark)] {
                        let far = distance(a, b, matrix);
                        assert!(far >= *least, "{a} and {b}: {far:.1} with {vision}");
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
        let dashes = [Dash::Solid, Dash::Dashed, Dash::Solid];
        assert_eq!([all[0].dash, all[1].dash, all[2].dash], dashes);
        let colours: HashSet<_> = all[..14].iter().map(|style| style.colour).collect();
        assert_eq!(colours.len(), 14, "each transport has a colour of its own");
    }

    #[test]
    fn names_outside_the_catalogue_take_looks_that_are_free() {
        let (palette, _) = palette(14);
        let names: Vec<String> = (0..20).map(|i| format!("mix {i}")).collect();
        let looks: HashSet<_> =
            palette.styles(names.iter().map(String::as_str)).into_iter().collect();
        assert_eq!(looks.len(), 20);
        let colours: HashSet<_> = palette
            .styles(["mix 1", "transport 0", "mix 2", "transport 3", "mix 3", "mix 4", "mix 5"])
            .into_iter()
            .map(|style| style.colour)
            .collect();
        assert_eq!(colours.len(), 7, "while there are colours, no two names share one");
        let twice = palette.styles(["transport 3", "transport 3"]);
        assert_ne!(twice[0], twice[1]);
    }
}
