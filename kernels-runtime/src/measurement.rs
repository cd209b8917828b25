//! A benchmark of a program's own work, with and without its kernels.

use crate::live::{self, Sampling};
use crate::policy::{self, Policy, PolicyError};
use crate::report;
use crate::tune::TURNS;
use kernels_io::Table;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// The number of rounds of [`measure`], unless it takes longer than [`PATIENCE`].
const ROUNDS: usize = 15;
const FEWEST: usize = 3;
const PATIENCE: Duration = Duration::from_secs(10);

/// Times of the same work with and without kernels, taken by [`measure`].
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// The policy that was in force. It chose the kernels of `fused`.
    pub policy: String,
    /// The times with the kernels of the policy in force.
    pub fused: Times,
    /// The times without kernels, with every site on its reference.
    pub reference: Times,
    /// One row for each site that ran fused, the largest saving first.
    pub sites: Vec<SiteTimes>,
}

/// The time that the kernel of one site saves.
#[derive(Clone, Debug, Serialize)]
pub struct SiteTimes {
    /// The site's full name.
    pub site: String,
    /// The kernel that ran.
    pub kernel: &'static str,
    /// The number of calls of the site in one run of the work.
    pub calls: u64,
    /// The times with all kernels except this site's.
    pub without: Times,
    /// The median over the rounds of the time without this site's kernel minus the time with all kernels, in seconds.
    /// It is negative if the kernel is slower than the reference.
    pub saved: f64,
}

/// The times of the work in one configuration, in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Times {
    /// One time per round, in the order of the rounds.
    pub seconds: Vec<f64>,
}

impl Times {
    /// Returns the shortest time.
    pub fn best(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Returns the median time.
    pub fn median(&self) -> f64 {
        median(self.seconds.clone())
    }
}

/// Times `work` with the kernels of the policy in force, with none, and once more for each site that ran fused, without
/// that site's kernel. The configurations take turns, so that a busy machine slows all of them alike.
///
/// Each configuration runs once before it is timed. There are 15 rounds, or as many as fit in ten seconds, but at least
/// three. For example, `work` of one second with ten sites takes 48 s, of which 36 s are timed. First-use verification
/// is off meanwhile. The paths are chosen for the calling thread, so sites that `work` calls on other threads are not
/// switched.
///
/// Under a policy that [tunes](mod@crate::tune), `work` runs four more times before, so that its sites have chosen.
///
/// Devices that compute in the background are measured correctly only if `work` waits for them: end it with
/// `device.sync()` or with a read of its result.
///
/// ```
/// # extern crate kernels_runtime as burn_kernels;
/// use burn::tensor::{Device, Distribution, Tensor};
/// use burn_kernels::measure;
///
/// let x = Tensor::<2>::random([4, 64], Distribution::Default, &Device::default());
/// let measured = measure(|| drop(x.clone().square()))?;
/// println!("{measured}");
/// assert!(measured.speedup() > 0.0);
/// # Ok::<(), burn_kernels::policy::PolicyError>(())
/// ```
///
/// # Errors
/// Returns an error if `BURN_KERNELS` holds no policy.
pub fn measure(mut work: impl FnMut()) -> Result<Measurement, PolicyError> {
    let policy = policy::current()?;
    let _unverified = live::scope(Sampling::off());
    let mut run = |policy: &Policy| {
        let _scope = policy::scope(policy.clone());
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    };

    if policy.is_tuning() {
        // The calls that sites measure themselves are not to be timed with the work.
        for _ in 0..TURNS {
            run(&policy);
        }
    }
    let before = calls();
    run(&policy);
    let sites = fused_since(&before);
    let names = sites.keys().cloned();
    let mut ways = vec![policy.clone(), Policy::none()];
    for site in names {
        ways.push(policy.clone().disable_sites(&site)?);
    }
    for way in &ways[1..] {
        run(way);
    }

    let started = Instant::now();
    let mut seconds = vec![Vec::new(); ways.len()];
    for round in 0..ROUNDS {
        if round >= FEWEST && started.elapsed() > PATIENCE {
            break;
        }
        for (way, seconds) in ways.iter().zip(&mut seconds) {
            seconds.push(run(way));
        }
    }
    let mut times = seconds.into_iter().map(|seconds| Times { seconds });
    let (fused, reference) = (times.next(), times.next());
    let fused = fused.expect("the first way is timed");
    let rows = sites.into_iter().zip(times);
    let mut sites: Vec<SiteTimes> = rows
        .map(|((site, (kernel, calls)), without)| SiteTimes {
            site,
            kernel,
            calls,
            saved: median(differences(&without, &fused)),
            without,
        })
        .collect();
    sites.sort_by(|a, b| b.saved.total_cmp(&a.saved));
    Ok(Measurement {
        policy: policy.to_string(),
        fused,
        reference: reference.expect("the second way is timed"),
        sites,
    })
}

/// Returns the number of fused calls of each site so far, and its kernel, by the site's name.
fn calls() -> BTreeMap<String, (&'static str, u64)> {
    let mut found = BTreeMap::new();
    for row in report::report().rows {
        let Some(kernel) = row.call.and_then(|call| call.kernel) else {
            continue;
        };
        let (_, calls) = found.entry(row.site).or_insert((kernel, 0));
        *calls += row.calls;
    }
    found
}

/// Returns the sites that ran fused since `before`, each with its kernel and its number of calls since then.
fn fused_since(
    before: &BTreeMap<String, (&'static str, u64)>,
) -> BTreeMap<String, (&'static str, u64)> {
    let mut now = calls();
    for (site, (_, calls)) in &mut now {
        *calls -= before.get(site).map_or(0, |(_, calls)| *calls);
    }
    now.retain(|_, (_, calls)| *calls > 0);
    now
}

fn differences(of: &Times, from: &Times) -> Vec<f64> {
    let pairs = of.seconds.iter().zip(&from.seconds);
    pairs.map(|(of, from)| of - from).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

impl Measurement {
    /// Returns the speedup from kernels: the median over the rounds of the time without them divided by the time with
    /// them.
    pub fn speedup(&self) -> f64 {
        let pairs = self.reference.seconds.iter().zip(&self.fused.seconds);
        median(pairs.map(|(without, with)| without / with).collect())
    }

    /// Returns the measurement as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("text and numbers are JSON")
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |seconds: f64| format!("{:.3} ms", seconds * 1e3);
        writeln!(
            f,
            "{:.2} times as fast with kernels: {} with, {} without (medians of {} rounds)",
            self.speedup(),
            milliseconds(self.fused.median()),
            milliseconds(self.reference.median()),
            self.fused.seconds.len()
        )?;
        if self.sites.is_empty() {
            return writeln!(f, "no site ran fused under the policy `{}`", self.policy);
        }
        let mut table = Table::new(["site", "kernel", "calls", "saves"]);
        for row in &self.sites {
            let saves = milliseconds(row.saved);
            table.row([&row.site, row.kernel, &row.calls.to_string(), &saves]);
        }
        table.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn ratios_are_taken_by_round() {
        let times = |seconds: &[f64]| Times {
            seconds: seconds.to_vec(),
        };
        // One round on a machine that is ten times slower does not change the result.
        let measured = Measurement {
            policy: "all".to_owned(),
            fused: times(&[1.0, 10.0, 1.0]),
            reference: times(&[2.0, 20.0, 2.0]),
            sites: vec![SiteTimes {
                site: "a::b".to_owned(),
                kernel: "npu_fused_rope",
                calls: 3,
                saved: median(differences(
                    &times(&[1.5, 15.0, 1.5]),
                    &times(&[1.0, 10.0, 1.0]),
                )),
                without: times(&[1.5, 15.0, 1.5]),
            }],
        };
        assert_eq!(measured.speedup(), 2.0);
        assert_eq!(measured.sites[0].saved, 0.5);
        let shown = measured.to_string();
        assert!(shown.contains("2.00 times as fast"), "{shown}");
        assert!(shown.contains("500.000 ms"), "{shown}");
    }
}
