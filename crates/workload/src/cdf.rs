//! Size distributions given by points of their CDF.

use punctual_core::Bytes;
use serde::{Deserialize, Serialize};

/// A distribution of sizes: points (bytes, cumulative probability) joined by straight lines.
///
/// If the first point's probability is above zero, that share of the draws has exactly its size.
/// Two points with equal bytes make such a step anywhere else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(Bytes, f64)>", into = "Vec<(Bytes, f64)>")]
pub struct Cdf {
    points: Vec<(f64, f64)>,
}

/// Why points are not a valid CDF.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CdfError {
    /// There are no points.
    #[error("the size distribution has no points; give (bytes, cumulative) pairs up to 1")]
    Empty,
    /// A line is not two numbers.
    #[error(
        "line {line}: `{text}` is not a size and a cumulative probability; write for example \
         `10000 0.15`"
    )]
    Line {
        /// Line number, counted from 1.
        line: usize,
        /// Its text.
        text: String,
    },
    /// A probability is outside 0 to 1.
    #[error("point {point}: cumulative probability {value} is not between 0 and 1")]
    NotAProbability {
        /// Position of the point, counted from 1.
        point: usize,
        /// Its value.
        value: f64,
    },
    /// A size is negative, too large or not a number.
    #[error("point {point}: size {value} must be zero or more and below 1e18 bytes")]
    NotASize {
        /// Position of the point, counted from 1.
        point: usize,
        /// Its value.
        value: f64,
    },
    /// A size or probability is lower than that of the previous point.
    #[error(
        "point {point}: sizes and cumulative probabilities must not decrease; sort the points by size"
    )]
    NotMonotone {
        /// Position of the point, counted from 1.
        point: usize,
    },
    /// The last probability is not 1.
    #[error("the last point's cumulative probability is {0}; it must be 1")]
    EndsBelowOne(f64),
    /// Every size is below one byte.
    #[error("every size of the distribution is below one byte; a flow carries at least one")]
    AllZero,
}

impl Cdf {
    /// Builds a distribution from points in order of size.
    pub fn new(points: Vec<(f64, f64)>) -> Result<Self, CdfError> {
        let &(largest, last) = points.last().ok_or(CdfError::Empty)?;
        for (i, &(bytes, p)) in points.iter().enumerate() {
            let point = i + 1;
            if !(0.0..=1.0).contains(&p) {
                return Err(CdfError::NotAProbability { point, value: p });
            }
            if !(0.0..1e18).contains(&bytes) {
                return Err(CdfError::NotASize { point, value: bytes });
            }
            if i > 0 && (bytes < points[i - 1].0 || p < points[i - 1].1) {
                return Err(CdfError::NotMonotone { point });
            }
        }
        if last != 1.0 {
            return Err(CdfError::EndsBelowOne(last));
        }
        if largest < 1.0 {
            return Err(CdfError::AllZero);
        }
        Ok(Cdf { points })
    }

    /// Parses lines of a size (bytes, or with a unit) and a cumulative probability, separated by
    /// spaces or a comma. `#` starts a comment; empty lines are skipped.
    pub fn parse(text: &str) -> Result<Self, CdfError> {
        let mut points = Vec::new();
        for (i, whole) in text.lines().enumerate() {
            let line = whole.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let bad = || CdfError::Line { line: i + 1, text: whole.trim().into() };
            let mut fields = line
                .split(|c: char| c.is_whitespace() || c == ',')
                .filter(|field| !field.is_empty());
            let (Some(size), Some(p), None) = (fields.next(), fields.next(), fields.next()) else {
                return Err(bad());
            };
            let size = match size.parse::<f64>() {
                Ok(bytes) => bytes,
                Err(_) => size.parse::<Bytes>().map_err(|_| bad())?.get() as f64,
            };
            points.push((size, p.parse().map_err(|_| bad())?));
        }
        Cdf::new(points)
    }

    /// The points (bytes, cumulative probability).
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The `u`-quantile in bytes, for `u` from 0 to 1.
    pub fn quantile(&self, u: f64) -> f64 {
        let above = self.points.partition_point(|&(_, p)| p <= u);
        if above == 0 {
            return self.points[0].0;
        }
        let (x0, p0) = self.points[above - 1];
        match self.points.get(above) {
            Some(&(x1, p1)) => x0 + (x1 - x0) * ((u - p0) / (p1 - p0)),
            None => x0,
        }
    }

    /// The exact mean in bytes, before draws are rounded to whole bytes.
    pub fn mean(&self) -> f64 {
        let (first, step) = self.points[0];
        let mut mean = first * step;
        for pair in self.points.windows(2) {
            let [(x0, p0), (x1, p1)] = [pair[0], pair[1]];
            mean += (p1 - p0) * (x0 + x1) / 2.0;
        }
        mean
    }
}

impl TryFrom<Vec<(Bytes, f64)>> for Cdf {
    type Error = CdfError;
    fn try_from(points: Vec<(Bytes, f64)>) -> Result<Self, CdfError> {
        Cdf::new(points.into_iter().map(|(b, p)| (b.get() as f64, p)).collect())
    }
}

/// Rounds sizes to whole bytes.
impl From<Cdf> for Vec<(Bytes, f64)> {
    fn from(cdf: Cdf) -> Self {
        let whole = |x: f64| Bytes::new(libm::round(x) as u64);
        cdf.points.iter().map(|&(x, p)| (whole(x), p)).collect()
    }
}

/// Built-in size distributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BuiltIn {
    /// `web-search`: the search cluster of the DCTCP paper.
    WebSearch,
    /// `data-mining`: the data mining cluster of the VL2 paper.
    DataMining,
    /// `facebook-web`: Facebook web servers, within a cluster, by 5 % steps.
    FacebookWeb,
    /// `facebook-cache`: Facebook cache followers, within a cluster, by percentiles.
    FacebookCache,
    /// `hadoop`: Facebook Hadoop, by percentiles.
    Hadoop,
    /// `imc10`: the mix pHost made after the IMC'10 measurements, in packets of 1460 bytes.
    Imc10,
}

impl BuiltIn {
    /// All built-in distributions.
    pub const ALL: [BuiltIn; 6] = [
        BuiltIn::WebSearch,
        BuiltIn::DataMining,
        BuiltIn::FacebookWeb,
        BuiltIn::FacebookCache,
        BuiltIn::Hadoop,
        BuiltIn::Imc10,
    ];

    /// The name used in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            BuiltIn::WebSearch => "web-search",
            BuiltIn::DataMining => "data-mining",
            BuiltIn::FacebookWeb => "facebook-web",
            BuiltIn::FacebookCache => "facebook-cache",
            BuiltIn::Hadoop => "hadoop",
            BuiltIn::Imc10 => "imc10",
        }
    }

    /// The source of the data.
    pub const fn source(self) -> &'static str {
        match self {
            BuiltIn::WebSearch => "search cluster of the DCTCP paper",
            BuiltIn::DataMining => "data mining cluster of the VL2 paper",
            BuiltIn::FacebookWeb => "Facebook web servers, within a cluster",
            BuiltIn::FacebookCache => "Facebook cache followers, within a cluster",
            BuiltIn::Hadoop => "Facebook Hadoop",
            BuiltIn::Imc10 => "pHost's mix after the IMC 2010 measurements",
        }
    }

    /// The distribution with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        BuiltIn::ALL.into_iter().find(|b| b.name() == name)
    }

    /// The points of the distribution.
    pub fn cdf(self) -> Cdf {
        let (unit, points) = match self {
            BuiltIn::WebSearch => (1.0, WEB_SEARCH),
            BuiltIn::DataMining => (1.0, DATA_MINING),
            BuiltIn::FacebookWeb => (1.0, FACEBOOK_WEB),
            BuiltIn::FacebookCache => (1.0, FACEBOOK_CACHE),
            BuiltIn::Hadoop => (1.0, HADOOP),
            BuiltIn::Imc10 => (1460.0, IMC10_PACKETS),
        };
        Cdf { points: points.iter().map(|&(x, p)| (x * unit, p)).collect() }
    }
}

/// HKUST-SING/TrafficGenerator, conf/DCTCP_CDF.txt.
const WEB_SEARCH: &[(f64, f64)] = &[
    (0.0, 0.0),
    (10e3, 0.15),
    (20e3, 0.2),
    (30e3, 0.3),
    (50e3, 0.4),
    (80e3, 0.53),
    (200e3, 0.6),
    (1e6, 0.7),
    (2e6, 0.8),
    (5e6, 0.9),
    (10e6, 0.97),
    (30e6, 1.0),
];

/// HKUST-SING/TrafficGenerator, conf/VL2_CDF.txt.
const DATA_MINING: &[(f64, f64)] = &[
    (0.0, 0.0),
    (180.0, 0.1),
    (216.0, 0.2),
    (560.0, 0.3),
    (900.0, 0.4),
    (1100.0, 0.5),
    (1870.0, 0.6),
    (3160.0, 0.7),
    (10e3, 0.8),
    (400e3, 0.9),
    (3.16e6, 0.95),
    (100e6, 0.98),
    (1e9, 1.0),
];

/// Percentiles of PlatformLab/HomaSimulation's web server distribution. Joining them by lines
/// gives a mean of 73 011 bytes; the source states 62 874, from a finer curve.
const FACEBOOK_WEB: &[(f64, f64)] = &[
    (1.0, 0.0),
    (80.0, 0.05),
    (120.0, 0.10),
    (187.0, 0.15),
    (281.0, 0.20),
    (765.0, 0.25),
    (1033.0, 0.30),
    (1534.0, 0.35),
    (1889.0, 0.40),
    (2551.0, 0.45),
    (3464.0, 0.50),
    (4676.0, 0.55),
    (6481.0, 0.60),
    (9895.0, 0.65),
    (17_410.0, 0.70),
    (31_784.0, 0.75),
    (70_941.0, 0.80),
    (187_363.0, 0.85),
    (271_823.0, 0.90),
    (347_950.0, 0.95),
    (1e6, 1.0),
];

/// Percentiles of PlatformLab/HomaSimulation's cache follower distribution. Joining them by lines
/// gives a mean of 729 509 bytes; the source states 692 976.
const FACEBOOK_CACHE: &[(f64, f64)] = &[
    (1.0, 0.0),
    (293.0, 0.10),
    (455.0, 0.25),
    (1146.0, 0.40),
    (2767.0, 0.45),
    (28_270.0, 0.50),
    (209_954.0, 0.60),
    (553_812.0, 0.70),
    (1.65e6, 0.75),
    (2.46e6, 0.90),
    (3.84e6, 1.0),
];

/// Percentiles of PlatformLab/HomaSimulation's Hadoop distribution. Joining them by lines gives a
/// mean of 280 658 bytes; the source states 127 797. The difference comes from the last 5 %, a
/// straight line from 273 KB to 10 MB.
const HADOOP: &[(f64, f64)] = &[
    (1.0, 0.0),
    (315.0, 0.10),
    (463.0, 0.25),
    (662.0, 0.50),
    (960.0, 0.60),
    (1559.0, 0.65),
    (6387.0, 0.70),
    (42_493.0, 0.75),
    (120_373.0, 0.90),
    (273_075.0, 0.95),
    (10e6, 1.0),
];

/// NetSys/simulator, in packets. Half of the flows have one packet.
const IMC10_PACKETS: &[(f64, f64)] = &[
    (1.0, 0.5),
    (2.0, 0.6),
    (3.0, 0.7),
    (5.0, 0.75),
    (7.0, 0.8),
    (40.0, 0.8125),
    (72.0, 0.825),
    (137.0, 0.85),
    (267.0, 0.9),
    (1187.0, 0.95),
    (2107.0, 1.0),
];

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::rng::Stream;

    #[test]
    fn built_in_has_the_mean_of_its_table() {
        // Integrated independently from the tables. The Facebook ones differ from the means their
        // source states (62 874, 692 976, 127 797) because percentiles lose the shape of the tail.
        let means = [
            (BuiltIn::WebSearch, 1_711_250.0),
            (BuiltIn::DataMining, 12_658_198.6),
            (BuiltIn::FacebookWeb, 73_011.375),
            (BuiltIn::FacebookCache, 729_509.425),
            (BuiltIn::Hadoop, 280_657.525),
            (BuiltIn::Imc10, 195_357.125),
        ];
        for (which, mean) in means {
            let got = which.cdf().mean();
            assert!((got / mean - 1.0).abs() < 1e-6, "{}: {got}", which.name());
            Cdf::new(which.cdf().points).unwrap();
            assert_eq!(BuiltIn::by_name(which.name()), Some(which));
        }
    }

    #[test]
    fn quantile_samples_have_the_mean() {
        for which in BuiltIn::ALL {
            let cdf = which.cdf();
            let mut stream = Stream::named(1, "test", 0);
            let n = 1_000_000;
            let sum: f64 = (0..n).map(|_| cdf.quantile(stream.unit())).sum();
            let (got, mean) = (sum / f64::from(n), cdf.mean());
            assert!((got / mean - 1.0).abs() < 0.03, "{}: {got}, {mean}", which.name());
        }
    }

    #[test]
    fn quantile_joins_points_and_keeps_steps() {
        let cdf = Cdf::parse("100 0.5 # half of them\n\n200, 0.75\n1KB 1").unwrap();
        assert_eq!(cdf.quantile(0.0), 100.0);
        assert_eq!(cdf.quantile(0.5), 100.0);
        assert_eq!(cdf.quantile(0.625), 150.0);
        assert_eq!(cdf.quantile(0.875), 600.0);
        assert_eq!(cdf.mean(), 50.0 + 37.5 + 150.0);
    }

    #[test]
    fn parse_explains() {
        let error = |text: &str| Cdf::parse(text).unwrap_err();
        assert_eq!(error("# nothing\n"), CdfError::Empty);
        assert_eq!(error("1 0\n5 0.9"), CdfError::EndsBelowOne(0.9));
        assert_eq!(error("1 0.5\n5 0.4\n6 1"), CdfError::NotMonotone { point: 2 });
        assert_eq!(error("5 0.5\n1 1"), CdfError::NotMonotone { point: 2 });
        assert!(matches!(error("1 x"), CdfError::Line { line: 1, .. }));
        assert!(matches!(error("1 2 3"), CdfError::Line { line: 1, .. }));
        assert!(matches!(error("1 1.5"), CdfError::NotAProbability { point: 1, .. }));
        assert!(matches!(error("-1 1"), CdfError::NotASize { point: 1, .. }));
        assert_eq!(error("0 1"), CdfError::AllZero);
    }
}
