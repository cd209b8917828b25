//! The kernels of all ranks: their comparison before the first step, and one report of what ran.

use crate::training::plan::Plan;
use crate::{output, processor};
use anyhow::{Context, bail};
use burn_kernels::dispatch::{self, DeviceKind, Mode};
use burn_kernels::distributed::Group;
use burn_kernels::ops::linear::multiplies_in_tiles;
use burn_kernels::report::{Report, ReportRow};
use kernels_io::escape;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// The sites of a program in their order, each with its path.
type Paths = Vec<(String, String)>;

/// Compares what each rank will run, before the first step. The first rank says which processors differ: their kernels
/// are the same, but round sums otherwise.
///
/// # Errors
/// Returns an error that names a rank whose site takes another path, or if a rank is lost.
pub fn compare(plan: &Plan, group: &Group) -> anyhow::Result<()> {
    let planned = dispatch::plan_for(plan.device(), plan.dtype.into(), Mode::Training)?;
    let paths = planned.sites.iter().map(|row| {
        let path = format!("{} ({})", row.path(), row.kernel);
        (row.site.clone(), path)
    });
    let processor = (planned.device == DeviceKind::Cpu).then(|| match multiplies_in_tiles() {
        true => format!("{} with AMX", processor::level()),
        false => processor::level(),
    });
    let all: Vec<(Paths, Option<String>)> = of_all(group, &(paths.collect::<Paths>(), processor))?;
    let (paths, processors): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    if let Some(problem) = other_kernels(&paths, |rank| group.name_of(rank)) {
        bail!(
            "{problem}; start the ranks on devices of one kind, or with a --kernels that all can follow, such as `none`"
        );
    }
    if group.rank() == 0 {
        for remark in other_processors(&processors, |rank| group.name_of(rank)) {
            output::note(format_args!("{remark}"));
        }
    }
    Ok(())
}

/// Adds the counts of all ranks to the report of this one. Lines after the sites name what other ranks ran alone.
///
/// # Errors
/// Returns an error if a rank is lost.
pub fn merged(mut report: Report, group: &Group) -> anyhow::Result<Report> {
    let own = counts(&report.rows);
    let all: Vec<Vec<(String, u64)>> = of_all(group, &own)?;
    let places = own.iter().enumerate();
    let places: HashMap<&str, usize> = places.map(|(at, (name, _))| (name.as_str(), at)).collect();
    let mut alone = BTreeMap::<&str, (Vec<usize>, u64)>::new();
    for (rank, counts) in all.iter().enumerate() {
        let others = counts
            .iter()
            .filter(|(_, calls)| rank != group.rank() && *calls > 0);
        for (name, calls) in others {
            if let Some(at) = places.get(name.as_str()) {
                report.rows[*at].calls += calls;
                continue;
            }
            let (ranks, sum) = alone.entry(name).or_default();
            ranks.push(rank);
            *sum += calls;
        }
    }
    report
        .idle
        .extend(alone.into_iter().map(|(name, (ranks, calls))| {
            let first = group.name_of(ranks[0]);
            let who = match ranks.len() - 1 {
                0 => first,
                more => format!("{first} and {more} more"),
            };
            format!(
                "{who}, but not {}, ran {} ({calls} calls)",
                group.name_of(group.rank()),
                escape(name)
            )
        }));
    Ok(report)
}

/// Returns the paths of a report with their calls. Sites of one name are told apart by their order.
fn counts(rows: &[ReportRow]) -> Vec<(String, u64)> {
    let mut numbers = HashMap::<String, usize>::new();
    let named = rows.iter().map(|row| {
        let name = match &row.call {
            None => format!("{}: not reached", row.site),
            Some(call) => {
                let kernel = call.kernel.unwrap_or(row.kernel);
                format!("{}: {kernel}, {call}, {}", row.site, call.path())
            }
        };
        let number = numbers.entry(name.clone()).or_default();
        *number += 1;
        match number {
            1 => (name, row.calls),
            number => (format!("{name}, {number}"), row.calls),
        }
    });
    named.collect()
}

/// Returns what each rank gives, in the order of ranks.
fn of_all<T: Serialize + DeserializeOwned>(group: &Group, own: &T) -> anyhow::Result<Vec<T>> {
    let own = serde_json::to_vec(own)?;
    let lengths = group.all_gather(&[own.len() as u64], &vec![1; group.size()])?;
    let lengths: Vec<usize> = lengths.into_iter().map(|length| length as usize).collect();
    let all = group.all_gather(&own, &lengths)?;
    let mut rest = all.as_slice();
    let read = lengths.iter().enumerate().map(|(rank, length)| {
        let (text, others) = rest.split_at(*length);
        rest = others;
        serde_json::from_slice(text)
            .with_context(|| format!("cannot read what {} runs", group.name_of(rank)))
    });
    read.collect()
}

/// Returns a sentence on the first rank whose paths are not those of most.
fn other_kernels(all: &[Paths], name: impl Fn(usize) -> String) -> Option<String> {
    let like = first_of_most(all);
    let other = all.iter().position(|paths| *paths != all[like])?;
    let pairs = || all[other].iter().zip(&all[like]);
    let what = match pairs().find(|(one, most)| one != most) {
        Some(((site, path), (_, most))) => format!("{site} takes the path {path} and not {most}"),
        None => "it has other sites".to_owned(),
    };
    let (other, like) = (name(other), name(like));
    Some(format!(
        "{other} runs other kernels than {like}: {}",
        escape(&what)
    ))
}

/// Returns a sentence for each processor that most ranks don't have.
fn other_processors(all: &[Option<String>], name: impl Fn(usize) -> String) -> Vec<String> {
    let like = first_of_most(all);
    let text =
        |processor: &Option<String>| escape(processor.as_deref().unwrap_or("none")).into_owned();
    let mut told = vec![&all[like]];
    let mut remarks = Vec::new();
    for (rank, processor) in all.iter().enumerate() {
        if told.contains(&processor) {
            continue;
        }
        told.push(processor);
        let more = all[rank + 1..]
            .iter()
            .filter(|other| *other == processor)
            .count();
        let ranks = match more {
            0 => name(rank),
            more => format!("{} and {more} more", name(rank)),
        };
        remarks.push(format!(
            "{ranks}: the processor is {}, where that of {} is {}, so that the same kernels may round sums otherwise",
            text(processor),
            name(like),
            text(&all[like])
        ));
    }
    remarks
}

/// Returns the first place of the value that most have, and with equal numbers the first of all.
fn first_of_most<T: Eq + Hash>(values: &[T]) -> usize {
    let mut counts = HashMap::<&T, usize>::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let most = counts.values().max();
    let is_most = |value: &T| counts.get(value) == most;
    values.iter().position(is_most).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_kernels::dispatch::TensorType;
    use burn_kernels::registry::FloatType;
    use burn_kernels::report::Call;

    fn name(rank: usize) -> String {
        format!("rank {rank}")
    }

    #[test]
    fn the_rank_with_another_path_is_named_with_its_site() {
        let paths = |mlp: &str| -> Paths {
            vec![
                ("Norm".into(), "fused a".into()),
                ("Mlp".into(), mlp.into()),
            ]
        };
        assert_eq!(
            other_kernels(&[paths("fused a"), paths("fused a")], name),
            None
        );
        let all = [paths("reference\n"), paths("fused a"), paths("fused a")];
        let said = other_kernels(&all, name).unwrap();
        assert_eq!(
            said,
            "rank 0 runs other kernels than rank 1: Mlp takes the path reference\\n and not fused a"
        );
        let said = other_kernels(&all[..2], name).unwrap();
        assert!(
            said.starts_with("rank 1 runs other kernels than rank 0"),
            "{said}"
        );
        let fewer = [paths("fused a"), paths("fused a")[..1].to_vec()];
        assert!(other_kernels(&fewer, name).unwrap().contains("other sites"));
    }

    #[test]
    fn each_processor_but_that_of_most_is_told_once() {
        let all = ["v3", "v4", "v4", "v4", "v3"].map(|level| Some(level.to_owned()));
        let said = other_processors(&all, name);
        assert_eq!(said.len(), 1);
        assert!(
            said[0]
                .starts_with("rank 0 and 1 more: the processor is v3, where that of rank 1 is v4"),
            "{said:?}"
        );
        assert!(other_processors(&all[1..4], name).is_empty());
    }

    fn row(calls: u64, implementation: Option<&'static str>) -> ReportRow {
        let call = Call {
            device: DeviceKind::Cpu,
            dtype: TensorType::Float(FloatType::F32),
            mode: Mode::Training,
            kernel: None,
            implementation,
            operators: Vec::new(),
            reason: None,
            lack: None,
            is_step: false,
        };
        ReportRow {
            site: "Mlp".to_owned(),
            kernel: "npu_fused_swiglu",
            call: Some(call),
            calls,
        }
    }

    #[test]
    fn one_report_has_the_calls_of_all_ranks() {
        let ranks = Group::of_threads(3).into_iter().map(|group| {
            std::thread::spawn(move || {
                let mut rows = vec![row(2, Some("a")), row(3, Some("a"))];
                if group.rank() > 0 {
                    rows.push(row(5, None));
                }
                let report = Report {
                    rows,
                    idle: Vec::new(),
                };
                merged(report, &group).unwrap()
            })
        });
        let ranks: Vec<_> = ranks.collect();
        let reports: Vec<_> = ranks.into_iter().map(|rank| rank.join().unwrap()).collect();
        let calls = |report: &Report| report.rows.iter().map(|row| row.calls).collect::<Vec<_>>();
        assert_eq!(calls(&reports[0]), [6, 9]);
        assert_eq!(
            reports[0].idle,
            [
                "rank 1 and 1 more, but not rank 0, ran Mlp: npu_fused_swiglu, cpu f32 training, reference (10 calls)"
            ]
        );
        assert_eq!(calls(&reports[1]), [6, 9, 10]);
        assert!(reports[1].idle.is_empty());
    }
}
