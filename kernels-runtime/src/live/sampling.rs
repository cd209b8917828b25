//! The choice of the calls that are checked, and of the part that is compared.

use crate::guard::guard;
use crate::kernel::Rows;
use crate::policy::SitePattern;
use std::cell::Cell;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// The grammar of `BURN_KERNELS_VERIFY`, as errors show it.
pub const GRAMMAR: &str = "`off`, `first` (the first call of each site, the default) or `every:N` \
                           (its calls 1, N+1, 2N+1, …), then `,rows:N` to compare about N rows of \
                           a call (the default is 4) or `,whole` to compare all of it, and any \
                           number of `,-PATTERN` to leave sites out, as in a policy. Example: \
                           `every:100,whole,-my_model::Noisy*`";

/// The calls and sites that are verified, and the part that is compared. In text: see [`GRAMMAR`].
///
/// By default it is the [first](Sampling::first) call of each site, in every build.
///
/// ```
/// use kernels_runtime::live::Sampling;
///
/// let sampling: Sampling = "first,-my_model::Noisy::forward".parse().unwrap();
/// assert_eq!(sampling, Sampling::first().except("my_model::Noisy::forward").unwrap());
/// assert!("every:0".parse::<Sampling>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampling {
    rate: Rate,
    width: Width,
    except: Vec<SitePattern>,
}

/// The part of a call that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Some rows, where the operation works on each for itself.
    Rows(Rows),
    Whole,
}

impl Width {
    const DEFAULT: Self = Self::Rows(Rows::about(NonZeroU32::new(4).expect("four")));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rate {
    Off,
    First,
    Every(NonZeroU32),
}

impl Sampling {
    /// No call. A call then costs two loads more than without live verification.
    pub fn off() -> Self {
        Self::new(Rate::Off)
    }

    /// The first call of each site, and the first with autodiff: the default. Later calls cost a
    /// few loads more than without live verification.
    pub fn first() -> Self {
        Self::new(Rate::First)
    }

    /// Calls 1, n + 1, 2n + 1, … of each site.
    pub fn every(n: NonZeroU32) -> Self {
        Self::new(Rate::Every(n))
    }

    /// Compares about this many rows of a call, of operations that work on each row for itself: the
    /// first, the last and others spread between them. The default is 4. Operations without rows of
    /// that kind are compared whole.
    #[must_use]
    pub fn rows(mut self, about: NonZeroU32) -> Self {
        self.width = Width::Rows(Rows::about(about));
        self
    }

    /// Compares whole calls: every element of every result and gradient, in f64 on the host or
    /// wherever f64 is computed, and nothing besides. That takes as long as a few calls of the
    /// reference, and memory for copies of all operands.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.width = Width::Whole;
        self
    }

    /// Leaves out the sites whose names match a pattern, as policies have them. It need not match
    /// any.
    ///
    /// # Errors
    /// It is no pattern.
    pub fn except(mut self, sites: &str) -> Result<Self, SamplingError> {
        let pattern = SitePattern::parse(sites).map_err(|_| SamplingError::Word {
            word: sites.to_owned(),
        })?;
        self.except.push(pattern);
        Ok(self)
    }

    fn new(rate: Rate) -> Self {
        Self {
            rate,
            width: Width::DEFAULT,
            except: Vec::new(),
        }
    }

    /// Whether the sites of this name are not left out.
    pub(super) fn includes(&self, site: &str) -> bool {
        !self.except.iter().any(|pattern| pattern.matches_name(site))
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self::first()
    }
}

impl fmt::Display for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rate {
            Rate::Off => f.write_str("off")?,
            Rate::First => f.write_str("first")?,
            Rate::Every(n) => write!(f, "every:{n}")?,
        }
        match self.width {
            width if width == Width::DEFAULT => {}
            Width::Rows(rows) => write!(f, ",rows:{}", rows.count())?,
            Width::Whole => f.write_str(",whole")?,
        }
        self.except
            .iter()
            .try_for_each(|site| write!(f, ",-{site}"))
    }
}

/// Why a text is no [`Sampling`].
#[derive(Clone, PartialEq, Eq, Error)]
pub enum SamplingError {
    /// A word that the grammar does not have in its place.
    #[error("`{word}` does not say which calls to verify; write {GRAMMAR}")]
    Word {
        /// The word.
        word: String,
    },
    /// The environment variable is not Unicode.
    #[error("the environment variable BURN_KERNELS_VERIFY is not valid Unicode; write {GRAMMAR}")]
    NotUnicode,
    /// The environment variable holds something else.
    #[error("the environment variable BURN_KERNELS_VERIFY is `{value}`: {source}")]
    Environment {
        /// Its value.
        value: String,
        /// What is wrong with it.
        source: Box<SamplingError>,
    },
}

impl FromStr for Sampling {
    type Err = SamplingError;

    fn from_str(text: &str) -> Result<Self, SamplingError> {
        let mut words = text.split(',').map(str::trim);
        let first = words.next().unwrap_or_default();
        let unknown = |word: &str| SamplingError::Word {
            word: word.to_owned(),
        };
        let rate = match first.split_once(':') {
            None if first == "off" => Rate::Off,
            None if first == "first" => Rate::First,
            Some(("every", n)) => Rate::Every(n.parse().map_err(|_| unknown(first))?),
            _ => return Err(unknown(first)),
        };
        let mut width = None;
        let mut sampling = Self::new(rate);
        for word in words {
            let said = match word.split_once(':') {
                None if word == "whole" => Width::Whole,
                Some(("rows", n)) => {
                    Width::Rows(Rows::about(n.parse().map_err(|_| unknown(word))?))
                }
                _ => {
                    let site = word.strip_prefix('-').filter(|site| !site.is_empty());
                    sampling = sampling.except(site.ok_or_else(|| unknown(word))?)?;
                    continue;
                }
            };
            if width.replace(said).is_some() {
                return Err(unknown(word));
            }
            sampling.width = said;
        }
        Ok(sampling)
    }
}

/// A rate in a word with the index of the whole sampling, so that a call needs one load to know
/// that nothing is to be done. Zero: not known yet.
#[derive(Clone, Copy)]
pub(super) struct Packed(u64);

impl Packed {
    const UNKNOWN: u64 = 0;

    fn new(sampling: Sampling) -> Self {
        let rate = match sampling.rate {
            Rate::Off => 1,
            Rate::First => 2,
            Rate::Every(n) => 3 + u64::from(n.get()),
        };
        let mut stored = stored();
        let known = stored.iter().position(|known| **known == sampling);
        let index = known.unwrap_or_else(|| {
            stored.push(Arc::new(sampling));
            stored.len() - 1
        });
        Self((index as u64) << 40 | rate)
    }

    fn active(self) -> Active {
        match self.0 & ((1 << 40) - 1) {
            1 => Active::Off,
            2 => Active::First(self),
            n => Active::Every(n - 3, self),
        }
    }

    fn sampling(self) -> Arc<Sampling> {
        stored()[(self.0 >> 40) as usize].clone()
    }
}

/// What is in force, as a call needs it.
#[derive(Clone, Copy)]
pub(super) enum Active {
    Off,
    First(Packed),
    Every(u64, Packed),
}

impl Active {
    /// Whether sites of this name are checked at all.
    pub(super) fn includes(self, site: &str) -> bool {
        self.sampling()
            .is_some_and(|sampling| sampling.includes(site))
    }

    /// Returns the part of a call that is compared.
    pub(super) fn width(self) -> Width {
        self.sampling()
            .map_or(Width::DEFAULT, |sampling| sampling.width)
    }

    fn sampling(self) -> Option<Arc<Sampling>> {
        match self {
            Self::Off => None,
            Self::First(packed) | Self::Every(_, packed) => Some(packed.sampling()),
        }
    }
}

static STORED: Mutex<Vec<Arc<Sampling>>> = Mutex::new(Vec::new());
static SET: AtomicU64 = AtomicU64::new(Packed::UNKNOWN);

thread_local! {
    static SCOPED: Cell<u64> = const { Cell::new(Packed::UNKNOWN) };
}

fn stored() -> std::sync::MutexGuard<'static, Vec<Arc<Sampling>>> {
    // A panic while the lock is held leaves the list whole: it only ever grows by one push.
    STORED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is in force on this thread.
///
/// # Panics
/// On the first call, if `BURN_KERNELS_VERIFY` holds something else. Call [`crate::init`] early to
/// get that as an error.
#[inline]
pub(super) fn active() -> Active {
    let scoped = SCOPED.get();
    if scoped != Packed::UNKNOWN {
        return Packed(scoped).active();
    }
    let set = SET.load(Ordering::Relaxed);
    if set != Packed::UNKNOWN {
        return Packed(set).active();
    }
    initial().unwrap_or_else(|error| panic!("{error}")).active()
}

/// The environment's, or the default, unless another thread has set one meanwhile.
#[cold]
fn initial() -> Result<Packed, SamplingError> {
    let packed = Packed::new(from_env()?.unwrap_or_default());
    let set = SET.compare_exchange(
        Packed::UNKNOWN,
        packed.0,
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
    Ok(set.map_or_else(Packed, |_| packed))
}

fn from_env() -> Result<Option<Sampling>, SamplingError> {
    let Some(value) = std::env::var_os("BURN_KERNELS_VERIFY") else {
        return Ok(None);
    };
    let value = value.into_string().map_err(|_| SamplingError::NotUnicode)?;
    if value.trim().is_empty() {
        return Ok(None);
    }
    match value.parse() {
        Ok(sampling) => Ok(Some(sampling)),
        Err(source) => Err(SamplingError::Environment {
            value,
            source: Box::new(source),
        }),
    }
}

/// Makes this the sampling of the whole process, for every thread without a [`scope`].
pub fn set(sampling: Sampling) {
    SET.store(Packed::new(sampling).0, Ordering::Relaxed);
}

/// Puts a sampling in force on this thread until the guard is dropped. Scopes nest.
#[must_use = "the sampling is in force only while the guard lives"]
pub fn scope(sampling: Sampling) -> SamplingGuard {
    SamplingGuard::over(SCOPED.replace(Packed::new(sampling).0))
}

guard! {
    /// Restores the outer sampling when dropped. Drop guards in the reverse order of their making.
    pub SamplingGuard(u64), |outer| SCOPED.set(outer)
}

/// The sampling in force on this thread.
///
/// # Errors
/// Nothing was set and `BURN_KERNELS_VERIFY` holds no sampling.
pub fn current() -> Result<Sampling, SamplingError> {
    let packed = match (SCOPED.get(), SET.load(Ordering::Relaxed)) {
        (Packed::UNKNOWN, Packed::UNKNOWN) => initial()?,
        (Packed::UNKNOWN, set) => Packed(set),
        (scoped, _) => Packed(scoped),
    };
    Ok((*packed.sampling()).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for text in [
            "off",
            "first",
            "every:7",
            "first,-a::b,-*noisy*",
            "first,rows:9",
            "every:2,whole,-a::b",
        ] {
            assert_eq!(text.parse::<Sampling>().unwrap().to_string(), text);
        }
        let spaced: Sampling = " every:100 , -a::b ".parse().unwrap();
        assert_eq!(spaced.to_string(), "every:100,-a::b");
        assert_eq!("first,rows:4".parse(), Ok(Sampling::first()));
    }

    #[test]
    fn first_calls_are_verified_in_every_build() {
        assert_eq!(Sampling::default(), Sampling::first());
    }

    #[test]
    fn errors_show_the_grammar() {
        for text in [
            "",
            "on",
            "every",
            "every:0",
            "every:-1",
            "first,a::b",
            "first,-",
            "off:1",
            "first,rows:0",
            "first,rows",
            "first,whole:1",
            "first,whole,rows:2",
            "whole",
        ] {
            let error = text.parse::<Sampling>().unwrap_err().to_string();
            assert!(error.contains("`every:N`"), "{text}: {error}");
        }
    }

    #[test]
    fn scopes_nest_and_stay_on_their_thread() {
        let rate = || current().unwrap().to_string();
        let _outer = scope(Sampling::off());
        {
            let _inner = scope("every:3,-a::x".parse().unwrap());
            assert_eq!(rate(), "every:3,-a::x");
            assert!(matches!(active(), Active::Every(3, _)));
            assert!(!active().includes("a::x") && active().includes("a::y"));
            let elsewhere = std::thread::spawn(|| current().unwrap()).join().unwrap();
            assert_ne!(elsewhere.to_string(), "every:3,-a::x");
        }
        assert_eq!(rate(), "off");
        assert!(matches!(active(), Active::Off));
    }
}
