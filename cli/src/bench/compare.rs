//! `kernels bench compare`: the changes between two runs of a benchmark.

use crate::output;
use crate::results::{self, Time};
use crate::screen::Width;
use anyhow::{Context, ensure};
use kernels_io::{Cell, Limit, Page, Table, Tone, escape_path};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Compare two files that `--json` of a benchmark wrote
///
/// Rows are compared by name. A time of B that is more than `--threshold` above that of A is slower, one that is as far
/// below is faster. Ratios of machines that were busy, or of different machines, say little about a program.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The earlier results.
    a: PathBuf,
    /// The later results.
    b: PathBuf,
    /// The change, in per cent, above which a row is marked.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = percent)]
    threshold: f64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..f64::INFINITY).contains(&number) => Ok(number),
        _ => Err("expected a number of at least 0".to_owned()),
    }
}

/// Runs the command.
///
/// # Errors
/// Returns an error if a file can't be read or holds no results, or if the two have no row in common.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let comparison = Comparison::of(&a, &b, args.threshold);
    ensure!(
        !comparison.rows.is_empty(),
        "{} and {} have no row in common: they are results of different benchmarks",
        escape_path(&args.a),
        escape_path(&args.b)
    );
    match args.json {
        true => output::json(&comparison),
        false => {
            let mut page = Page::new(args.width.look());
            comparison.show(&mut page);
            output::page(&page)
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<Time>> {
    const LIMIT: Limit = Limit::mib("results of a benchmark", 64);
    let text = kernels_io::read_text(path, LIMIT)?;
    let unusable = || format!("{} holds no results of a benchmark", escape_path(path));
    results::read(&text).with_context(unusable)
}

/// The changes from one file to another.
#[derive(Serialize)]
struct Comparison<'a> {
    /// The change, in per cent, above which a row is marked.
    threshold: f64,
    rows: Vec<Row<'a>>,
    /// The means of the ratios, by what the times are of.
    geometric_means: BTreeMap<&'a str, Mean>,
    /// The times that are in one file only.
    only_in_a: Vec<Name<'a>>,
    only_in_b: Vec<Name<'a>>,
}

/// The name by which times of two files are matched.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize)]
struct Name<'a> {
    row: &'a str,
    of: &'a str,
}

/// A time in both files.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    name: Name<'a>,
    a_ms: f64,
    b_ms: f64,
    /// The time in the second file, divided by that in the first.
    ratio: f64,
    change: Option<Change>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Change {
    Slower,
    Faster,
}

#[derive(Serialize)]
struct Mean {
    ratio: f64,
    times: usize,
}

impl<'a> Comparison<'a> {
    fn of(a: &'a [Time], b: &'a [Time], threshold: f64) -> Self {
        let later: HashMap<_, _> = b.iter().map(|time| (Name::of(time), time)).collect();
        let in_both = a.iter().filter_map(|time| {
            let later = later.get(&Name::of(time))?;
            Some(Row::new(time, later.seconds, 1.0 + threshold / 100.0))
        });
        let rows: Vec<Row<'_>> = in_both.collect();
        Self {
            threshold,
            geometric_means: means(&rows),
            only_in_a: missing(a, b),
            only_in_b: missing(b, a),
            rows,
        }
    }

    fn show(&self, page: &mut Page) {
        let mut table = Table::new(["row", "time of", "A", "B", "B / A", ""]);
        for row in &self.rows {
            table.row([
                row.name.row.into(),
                row.name.of.into(),
                shown(row.a_ms).into(),
                shown(row.b_ms).into(),
                format_args!("{:.3}", row.ratio).into(),
                match row.change {
                    None => "".into(),
                    Some(Change::Slower) => Cell::new(Tone::Bad, "slower"),
                    Some(Change::Faster) => Cell::new(Tone::Good, "faster"),
                },
            ]);
        }
        page.table(&table);
        page.line("");
        for (of, Mean { ratio, times }) in &self.geometric_means {
            let of = kernels_io::escape(of);
            page.line(format_args!(
                "{of}: {ratio:.3} times as long in B (geometric mean of {times})"
            ));
        }
        for (file, names) in [("A", &self.only_in_a), ("B", &self.only_in_b)] {
            for name in names {
                let [row, of] = [name.row, name.of].map(kernels_io::escape);
                page.toned(Tone::Caution, format_args!("only in {file}: {row} ({of})"));
            }
        }
    }
}

impl<'a> Name<'a> {
    fn of(time: &'a Time) -> Self {
        Self {
            row: &time.row,
            of: &time.of,
        }
    }
}

impl<'a> Row<'a> {
    /// Creates the row of a time that takes `later` seconds in the second file. Ratios of more than `limit`, or of less than
    /// its inverse, are marked.
    fn new(time: &'a Time, later: f64, limit: f64) -> Self {
        let ratio = later / time.seconds;
        let change = match ratio {
            _ if ratio > limit => Some(Change::Slower),
            _ if ratio * limit < 1.0 => Some(Change::Faster),
            _ => None,
        };
        Self {
            name: Name::of(time),
            a_ms: time.seconds * 1e3,
            b_ms: later * 1e3,
            ratio,
            change,
        }
    }
}

/// Returns the names of the times of one file that another lacks.
fn missing<'a>(times: &'a [Time], other: &[Time]) -> Vec<Name<'a>> {
    let other: HashSet<_> = other.iter().map(Name::of).collect();
    let names = times.iter().map(Name::of);
    names.filter(|name| !other.contains(name)).collect()
}

fn means<'a>(rows: &[Row<'a>]) -> BTreeMap<&'a str, Mean> {
    let mut logarithms = BTreeMap::<_, Vec<f64>>::new();
    for row in rows {
        let of = logarithms.entry(row.name.of).or_default();
        of.push(row.ratio.ln());
    }
    let mean = |(of, logarithms): (_, Vec<f64>)| {
        let times = logarithms.len();
        let ratio = (logarithms.iter().sum::<f64>() / times as f64).exp();
        (of, Mean { ratio, times })
    };
    logarithms.into_iter().map(mean).collect()
}

/// Returns a time in a unit in which it has a digit before the point.
fn shown(ms: f64) -> String {
    match ms {
        _ if ms >= 1.0 => format!("{ms:.2} ms"),
        _ if ms >= 1e-3 => format!("{:.2} µs", ms * 1e3),
        _ => format!("{:.2} ns", ms * 1e6),
    }
}
