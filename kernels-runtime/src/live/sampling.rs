//! The choice of the calls that are checked, and of the part that is compared.

use crate::kernel::Rows;
use crate::policy::SitePattern;
use crate::scope_guard::guard;
use std::cell::Cell;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// The grammar of `BURN_KERNELS_VERIFY`, for error messages.
pub const GRAMMAR: &str = "`off`, `first` (the first calls of each site, the default) or `every:N` \
                           (its calls 1, N+1, 2N+1, …), then `,rows:N` to compare about N rows of \
                           a call (the default is 4) or `,whole` to compare all of it, and any \
                           number of `,-PATTERN` to leave sites out, as in a policy. `warn:` before \
                           it logs a difference and goes on, where the default is to stop. Examples: \
                           `every:100,whole,-my_model::Noisy*`, `warn:first`";

/// The calls and sites that are verified, and the part that is compared. For the text form, see [`GRAMMAR`].
///
/// The default is the [first](Sampling::first) calls of each site, in every build.
///
/// ```
/// # extern crate kernels_runtime as burn_kernels;
/// use burn_kernels::live::Sampling;
///
/// let sampling: Sampling = "first,-my_model::Noisy::forward".parse().unwrap();
/// assert_eq!(sampling, Sampling::first().except("my_model::Noisy::forward").unwrap());
/// assert!("every:0".parse::<Sampling>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampling {
    rate: Rate,
    goes_on: bool,
    width: Width,
    except: Vec<SitePattern>,
}

/// The part of a call that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Some rows, if the operation computes each row separately.
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
    /// Selects no call. A call then costs two loads more than without live verification.
    pub fn off() -> Self {
        Self::new(Rate::Off)
    }

    /// Selects the first call of each [class](super) of a site's calls. This is the default. Later calls cost a few
    /// loads more than without live verification.
    pub fn first() -> Self {
        Self::new(Rate::First)
    }

    /// Selects calls 1, n + 1, 2n + 1, … of each site.
    pub fn every(n: NonZeroU32) -> Self {
        Self::new(Rate::Every(n))
    }

    /// Compares about this many rows of a call, for operations that compute each row separately: the first, the last
    /// and others spread between them. The default is 4. Operations without such rows are compared as a whole.
    #[must_use]
    pub fn rows(mut self, about: NonZeroU32) -> Self {
        self.width = Width::Rows(Rows::about(about));
        self
    }

    /// Compares whole calls, without added rows: every element of every result and gradient, in f64, on the host or on
    /// a device that computes in f64. This takes as long as a few calls of the reference, and memory for copies of all
    /// operands.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.width = Width::Whole;
        self
    }

    /// Logs a difference as a warning and continues with the kernel's result. The default is a panic. The
    /// [report](super::report) counts the calls that differed. In the text form, `warn:` comes before everything else.
    #[must_use]
    pub fn warn(mut self) -> Self {
        self.goes_on = true;
        self
    }

    /// Returns `true` if a difference is a warning and not a panic; see [`Sampling::warn`].
    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Excludes the sites whose names match a pattern of the same form as in policies. The pattern need not match any
    /// site.
    ///
    /// # Errors
    /// Returns an error if the text is not a pattern.
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
            goes_on: false,
            width: Width::DEFAULT,
            except: Vec::new(),
        }
    }

    /// Returns `true` if the sites of this name are not excluded.
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
        if self.goes_on {
            f.write_str("warn:")?;
        }
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

/// The reason why a text is not a [`Sampling`].
#[derive(Clone, PartialEq, Eq, Error)]
pub enum SamplingError {
    /// A word that the grammar does not allow in this place.
    #[error("`{word}` does not say which calls to verify; write {GRAMMAR}")]
    Word {
        /// The word.
        word: String,
    },
    /// The environment variable is not Unicode.
    #[error("the environment variable BURN_KERNELS_VERIFY is not valid Unicode; write {GRAMMAR}")]
    NotUnicode,
    /// The environment variable does not hold a sampling.
    #[error("the environment variable BURN_KERNELS_VERIFY is `{value}`: {source}")]
    Environment {
        /// Its value.
        value: String,
        /// The problem with the value.
        source: Box<SamplingError>,
    },
}

impl FromStr for Sampling {
    type Err = SamplingError;

    fn from_str(text: &str) -> Result<Self, SamplingError> {
        let text = text.trim();
        let goes_on = text.strip_prefix("warn:");
        let mut words = goes_on.unwrap_or(text).split(',').map(str::trim);
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
        if goes_on.is_some() && rate == Rate::Off {
            return Err(unknown(text));
        }
        let mut width = None;
        let mut sampling = Self {
            goes_on: goes_on.is_some(),
            ..Self::new(rate)
        };
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

/// A rate and the index of the whole sampling in one word, so that one load shows that a call need not be checked. Zero
/// means not known yet.
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

/// The sampling in force, in the form that a call needs.
#[derive(Clone, Copy)]
pub(super) enum Active {
    Off,
    First(Packed),
    Every(u64, Packed),
}

impl Active {
    /// Returns `true` if sites of this name are checked at all.
    pub(super) fn includes(self, site: &str) -> bool {
        self.sampling()
            .is_some_and(|sampling| sampling.includes(site))
    }

    /// Returns `true` if a difference is a warning and not a panic.
    pub(super) fn goes_on(self) -> bool {
        self.sampling().is_some_and(|sampling| sampling.goes_on())
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
    // A panic while the lock is held leaves the list consistent, because it grows by single pushes.
    STORED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the sampling in force on this thread.
///
/// # Panics
/// Panics on the first call if `BURN_KERNELS_VERIFY` does not hold a sampling. [`crate::init`] returns this as an error
/// if it is called earlier.
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

/// Returns the environment's sampling, or the default, unless another thread has set one meanwhile.
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

/// Sets the sampling of the whole process, for every thread without a [`scope`].
pub fn set(sampling: Sampling) {
    SET.store(Packed::new(sampling).0, Ordering::Relaxed);
}

/// Puts a sampling in force on this thread until the guard is dropped. Scopes nest.
#[must_use = "the sampling is in force only while the guard lives"]
pub fn scope(sampling: Sampling) -> SamplingGuard {
    SamplingGuard::over(SCOPED.replace(Packed::new(sampling).0))
}

guard! {
    /// A guard that restores the outer sampling when dropped. Drop guards in the reverse order of their creation.
    pub SamplingGuard(u64), |outer| SCOPED.set(outer)
}

/// Returns the sampling in force on this thread.
///
/// # Errors
/// Returns an error if nothing was set and `BURN_KERNELS_VERIFY` does not hold a sampling.
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
            "warn:first",
            "warn:every:2,whole,-a::b",
        ] {
            assert_eq!(text.parse::<Sampling>().unwrap().to_string(), text);
        }
        let spaced: Sampling = " every:100 , -a::b ".parse().unwrap();
        assert_eq!(spaced.to_string(), "every:100,-a::b");
        assert_eq!("first,rows:4".parse(), Ok(Sampling::first()));
        assert_eq!("warn: first".parse(), Ok(Sampling::first().warn()));
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
            "warn",
            "warn:",
            "warn:off",
            "first,warn:",
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
