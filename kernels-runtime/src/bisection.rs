//! The environment variables by which `kernels bisect` controls a program, through any wrapper.
//!
//! * `BURN_KERNELS_TRACE_SITES=FILE`: sites that run fused append their full names to the file, one per line. A site
//!   writes each time it decides for a new kind of call, so names may repeat.
//! * `BURN_KERNELS_SITES_OFF=FILE`: the file lists full names of sites, one per line. These sites take their
//!   references. Unlike a policy, the file may name sites that are not linked in, because the programs of one command
//!   may hold different sites.

use crate::registry::SiteSpec;
use kernels_io::{Limit, escape_path};
use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const TRACE: &str = "BURN_KERNELS_TRACE_SITES";
const OFF: &str = "BURN_KERNELS_SITES_OFF";

static TRACED: LazyLock<Option<PathBuf>> = LazyLock::new(|| file(TRACE));

static OFF_SITES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let Some(file) = file(OFF) else {
        return HashSet::new();
    };
    const LIMIT: Limit = Limit::mib("a list of sites", 16);
    let names = kernels_io::read_text(&file, LIMIT);
    let names = names.unwrap_or_else(|error| panic!("{OFF}: {error}"));
    names.lines().map(str::to_owned).collect()
});

fn file(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .filter(|file| !file.is_empty())
        .map(PathBuf::from)
}

/// Panics, because a user who sets the variable would take silence for a result.
fn unusable(variable: &str, file: &Path, error: &io::Error) -> ! {
    panic!(
        "{variable} names {}, which can't be used: {error}",
        escape_path(file)
    )
}

/// Returns `true` if a site has to take its reference.
pub(crate) fn is_off(site: &SiteSpec) -> bool {
    let off = &*OFF_SITES;
    !off.is_empty() && off.contains(&site.name())
}

/// Records that a site decided to run fused.
pub(crate) fn ran_fused(site: &SiteSpec) {
    if let Some(file) = &*TRACED {
        append(file, site).unwrap_or_else(|error| unusable(TRACE, file, &error));
    }
}

/// Appends the site's name in one write, so that the lines of several processes don't mix.
fn append(file: &Path, site: &SiteSpec) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(file)?;
    file.write_all((site.name() + "\n").as_bytes())
}
