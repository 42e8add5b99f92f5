//! One look a transport, in every figure.

/// A colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Colour(u8, u8, u8);

impl Colour {
    pub(crate) const WHITE: Colour = Colour(255, 255, 255);
    pub(crate) const BLACK: Colour = Colour(0, 0, 0);
    /// Titles.
    pub(crate) const INK: Colour = Colour(0x22, 0x22, 0x22);
    /// Everything that is read second.
    pub(crate) const MUTED: Colour = Colour(0x66, 0x66, 0x66);
    /// Axes.
    pub(crate) const AXIS: Colour = Colour(0x88, 0x88, 0x88);
    /// Grid lines.
    pub(crate) const GRID: Colour = Colour(0xdd, 0xdd, 0xdd);
    /// Grid lines between grid lines.
    pub(crate) const FINE_GRID: Colour = Colour(0xf0, 0xf0, 0xf0);

    /// Red, green and blue.
    pub const fn rgb(self) -> (u8, u8, u8) {
        (self.0, self.1, self.2)
    }
}

/// As in `#0072b2`.
impl std::fmt::Display for Colour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// How a line is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dash {
    /// Not at all.
    Solid,
    /// Long dashes.
    Dashed,
    /// Short ones.
    Dotted,
}

/// The look of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LineStyle {
    /// Its colour.
    pub colour: Colour,
    /// Its line.
    pub dash: Dash,
}

const BLUE: Colour = Colour(0x00, 0x72, 0xb2);
const VERMILLION: Colour = Colour(0xd5, 0x5e, 0x00);
const GREEN: Colour = Colour(0x00, 0x9e, 0x73);
const PURPLE: Colour = Colour(0xcc, 0x79, 0xa7);
const ORANGE: Colour = Colour(0xe6, 0x9f, 0x00);
const GREY: Colour = Colour(0x7f, 0x7f, 0x7f);
const LIGHT_GREY: Colour = Colour(0xb3, 0xb3, 0xb3);
const SKY: Colour = Colour(0x56, 0xb4, 0xe9);

/// The colours of Okabe and Ito, which people with any common kind of colour blindness can tell
/// apart, without the yellow, which is hard to see on white.
const COLOURS: [Colour; 7] = [BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, Colour::BLACK];

/// Transports with a look of their own.
const KNOWN: [(&str, Colour, Dash); 22] = [
    ("ndp", BLUE, Dash::Solid),
    ("pdq", VERMILLION, Dash::Solid),
    ("d3", GREEN, Dash::Solid),
    ("d2tcp", PURPLE, Dash::Solid),
    ("dctcp", ORANGE, Dash::Solid),
    ("rcpdc", SKY, Dash::Solid),
    ("rcp", SKY, Dash::Dashed),
    ("tcp", Colour::BLACK, Dash::Solid),
    ("phost", BLUE, Dash::Dashed),
    ("pfabric", VERMILLION, Dash::Dashed),
    ("homa", GREEN, Dash::Dashed),
    ("swift", PURPLE, Dash::Dashed),
    ("dcqcn", ORANGE, Dash::Dashed),
    ("dctcp-lossless", ORANGE, Dash::Dotted),
    ("hpcc", SKY, Dash::Dotted),
    ("tcppr", Colour::BLACK, Dash::Dotted),
    ("mptcp", Colour::BLACK, Dash::Dashed),
    // Ideal schedulers are grey: they are what others are held against.
    ("optimal", GREY, Dash::Solid),
    ("ideal-edf", GREY, Dash::Dashed),
    ("ideal-sjf", GREY, Dash::Dotted),
    ("ideal-fair", LIGHT_GREY, Dash::Dashed),
    ("ideal-reservation", LIGHT_GREY, Dash::Dotted),
];

/// The look of a transport, by its name alone: the same wherever it is shown. Names that are not
/// known get one that two of them may share.
pub fn line_style(transport: &str) -> LineStyle {
    // A bound says so after its name.
    let name = transport.split(" (").next().unwrap_or(transport);
    let known = KNOWN.iter().find(|known| known.0.eq_ignore_ascii_case(name));
    let unknown = || {
        // FNV-1a: the same on every machine and in every version.
        let hash = transport.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        LineStyle { colour: COLOURS[(hash % 7) as usize], dash: Dash::Dotted }
    };
    known.map_or_else(unknown, |&(_, colour, dash)| LineStyle { colour, dash })
}

/// The looks of transports shown together. Where two would look the same, the later one takes the
/// next look that is free.
pub(crate) fn line_styles<'a>(transports: impl IntoIterator<Item = &'a str>) -> Vec<LineStyle> {
    let mut taken: Vec<LineStyle> = Vec::new();
    for transport in transports {
        let own = line_style(transport);
        let place = COLOURS.iter().position(|colour| *colour == own.colour).unwrap_or(0);
        let others = (0..COLOURS.len()).flat_map(|i| {
            let colour = COLOURS[(place + i) % COLOURS.len()];
            [Dash::Solid, Dash::Dashed, Dash::Dotted].map(|dash| LineStyle { colour, dash })
        });
        let free = std::iter::once(own).chain(others).find(|style| !taken.contains(style));
        taken.push(free.unwrap_or(own));
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn known_transports_look_different() {
        let looks: HashSet<_> = KNOWN.iter().map(|known| line_style(known.0)).collect();
        assert_eq!(looks.len(), KNOWN.len());
    }

    #[test]
    fn looks_are_stable() {
        assert_eq!(line_style("ndp").colour.to_string(), "#0072b2");
        assert_eq!(line_style("NDP"), line_style("ndp"));
        assert_eq!(line_style("tcp, 2 ms").colour.to_string(), "#56b4e9");
    }

    #[test]
    fn transports_shown_together_never_look_the_same() {
        let names: Vec<String> = (0..21).map(|i| format!("variant {i}")).collect();
        let looks: HashSet<_> = line_styles(names.iter().map(String::as_str)).into_iter().collect();
        assert_eq!(looks.len(), 21);
        let looks = line_styles(["tcp", "ndp", "tcp"]);
        assert_eq!(looks[0], line_style("tcp"));
        assert_ne!(looks[0], looks[2]);
    }
}
