//! The choice between a kernel and its reference, by their times.

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The faster of two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// The kernel.
    Kernel,
    /// The reference, which is the user's own body.
    Reference,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "kernel",
            Self::Reference => "reference",
        })
    }
}

/// The times of one call, forward and, with autodiff, backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) kernel: Duration,
    pub(crate) reference: Duration,
}

/// The part of the time of the usual way that another one has to save. Less is within the noise of a measurement.
const MARGIN: f64 = 0.03;

/// Returns `true` if a time is less than the usual one, beyond the noise of a measurement.
pub(crate) fn is_clearly_less(time: Duration, usual: Duration) -> bool {
    time.as_secs_f64() < usual.as_secs_f64() * (1.0 - MARGIN)
}

impl Times {
    /// Returns the faster one: the reference only if it is clearly faster.
    pub(crate) fn choice(self) -> Choice {
        match is_clearly_less(self.reference, self.kernel) {
            true => Choice::Reference,
            false => Choice::Kernel,
        }
    }

    /// Returns the shorter time of each.
    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            kernel: self.kernel.min(other.kernel),
            reference: self.reference.min(other.reference),
        }
    }
}

/// The size of a tensor, as far as a class of calls has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Size {
    /// The product of all axes but the last, rounded up to a power of two.
    rows: usize,
    /// The last axis.
    last: usize,
}

impl Size {
    /// Returns the size of a tensor of this shape.
    pub(crate) fn of(shape: &[usize]) -> Self {
        let (last, others) = shape.split_last().unwrap_or((&1, &[]));
        let rows: usize = others.iter().product();
        Self {
            // A tensor has at most as many elements as an address can tell.
            rows: rows.checked_next_power_of_two().unwrap_or(rows),
            last: *last,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.last)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = || {
            let (rows, last) = text.split_once('x')?;
            let rows = rows
                .parse()
                .ok()
                .filter(|rows: &usize| rows.is_power_of_two())?;
            let last = last.parse().ok()?;
            Some(Self { rows, last })
        };
        size().filter(|size| size.to_string() == text).ok_or_else(|| {
            format!("invalid size `{text}` of a tensor; write it like `128x1024`: rows, rounded up to a power of two, and the last axis")
        })
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_to_be_clearly_faster() {
        let choice = |kernel, reference| {
            let [kernel, reference] = [kernel, reference].map(Duration::from_nanos);
            Times { kernel, reference }.choice()
        };
        assert_eq!(choice(1000, 2000), Choice::Kernel);
        assert_eq!(choice(1000, 1000), Choice::Kernel);
        assert_eq!(choice(1000, 980), Choice::Kernel);
        assert_eq!(choice(1000, 960), Choice::Reference);
        assert_eq!(choice(0, 0), Choice::Kernel);
    }

    #[test]
    fn sizes_round_rows_up_and_parse_back() {
        for (shape, text) in [
            (&[][..], "1x1"),
            (&[7], "1x7"),
            (&[5, 7], "8x7"),
            (&[2, 3, 7], "8x7"),
            (&[0, 7], "1x7"),
            (&[4, 0], "4x0"),
        ] {
            let size = Size::of(shape);
            assert_eq!(size.to_string(), text, "{shape:?}");
            assert_eq!(text.parse(), Ok(size));
        }
        for text in ["", "8", "8x", "x7", "7x7", "0x7", "08x7", "8x-1", "8x7x1"] {
            assert!(text.parse::<Size>().unwrap_err().contains("`128x1024`"));
        }
    }
}
