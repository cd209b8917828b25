//! `kernels list`: the kernels and sites that are linked into this program.

use crate::choice::DeviceChoice;
use crate::output;
use crate::screen::Width;
use burn_kernels::dispatch::DeviceKind;
use burn_kernels::registry::{self, Gradient, Implementation, KernelSpec, Site};
use burn_kernels::semantics::as_written;
use kernels_io::{Cell, Fit, Page, Table, Tone};
use serde_json::{Value, json};
use std::fmt::Display;

/// List the kernels and annotated sites that are linked into this program
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show for each implementation whether it can run on this device.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let here = Here::on(&args.device)?;
    if args.json {
        let kernels = registry::kernels()
            .map(|kernel| here.kernel_json(kernel))
            .collect::<Result<Vec<_>, _>>()?;
        let replaced: Vec<_> = registry::replaced()
            .map(|(old, new)| json!({ "id": old.id, "crate": old.krate, "by": new.krate }))
            .collect();
        let sites = registry::sites()
            .map(site_json)
            .collect::<Result<Vec<_>, _>>()?;
        output::json(&json!({ "kernels": kernels, "replaced": replaced, "sites": sites }))
    } else {
        let mut page = Page::new(args.width.look());
        page.table(&kernel_table(here));
        page.line("");
        page.table(&site_table());
        page.line("");
        page.paragraph(OTHER_PROGRAMS);
        output::page(&page)
    }
}

/// The device that implementations are checked against.
#[derive(Clone, Copy)]
struct Here {
    kind: DeviceKind,
    capability: u16,
}

impl Here {
    fn on(device: &DeviceChoice) -> anyhow::Result<Self> {
        let device = device.device()?;
        Ok(Self {
            kind: DeviceKind::of(&device),
            capability: DeviceKind::capability(&device),
        })
    }

    /// Returns the reason why the implementation can't run here, or `None` if it can.
    fn unavailable(self, implementation: &Implementation) -> Option<String> {
        let range = implementation.capability;
        if !implementation.device.contains(self.kind) {
            return Some(format!("not on {}", self.kind));
        }
        (!range.contains(self.capability)).then(|| {
            let (kind, capability) = (self.kind, self.capability);
            format!("for {kind} of capability {range}, this is {capability}")
        })
    }

    /// Returns the spec as JSON. Each implementation has the field `unavailable`: null, or the reason why it can't run
    /// here.
    fn kernel_json(self, kernel: &KernelSpec) -> serde_json::Result<Value> {
        let mut json = serde_json::to_value(kernel)?;
        for (index, implementation) in kernel.implementations.iter().enumerate() {
            json["implementations"][index]["unavailable"] = self.unavailable(implementation).into();
        }
        Ok(json)
    }
}

fn site_json(site: &Site) -> serde_json::Result<Value> {
    let mut json = serde_json::to_value(site.spec())?;
    json["name"] = site.name().into();
    Ok(json)
}

/// A note for users who look for the sites of another program.
pub const OTHER_PROGRAMS: &str = "These are the sites of `kernels` itself. For your own program: \
     `kernels inspect FILE` lists its sites, `kernels plan --bin FILE` plans them; FILE is the built program.";

fn kernel_table(here: Here) -> Table<7> {
    let mut table = Table::new([
        "kernel",
        "crate",
        "implementation",
        "device",
        "dtypes",
        "gradient",
        "here",
    ]);
    for kernel in registry::kernels() {
        for implementation in kernel.implementations {
            table.row(implementation_row(kernel, implementation, here));
        }
        if kernel.implementations.is_empty() {
            table.row(empty_row(kernel, "no implementation in this build"));
        }
    }
    for (old, new) in registry::replaced() {
        table.row(empty_row(old, format!("replaced by {}", new.origin())));
    }
    table
}

fn implementation_row(
    kernel: &KernelSpec,
    implementation: &Implementation,
    here: Here,
) -> [Cell; 7] {
    let dtypes: Vec<_> = implementation.dtypes.iter().map(|d| d.name()).collect();
    [
        versioned(kernel),
        kernel.origin().into(),
        implementation.name.into(),
        implementation.device.into(),
        dtypes.join(" ").into(),
        gradient(implementation.gradient).into(),
        match here.unavailable(implementation) {
            None => Cell::new(Tone::Good, "yes"),
            Some(why) => Cell::new(Tone::Caution, why),
        },
    ]
}

fn versioned(kernel: &KernelSpec) -> Cell {
    format_args!("{} v{}", kernel.id, kernel.version).into()
}

fn gradient(gradient: Gradient) -> &'static str {
    match gradient {
        Gradient::None => "no",
        Gradient::Kernel => "yes",
        Gradient::Reference => "reference's",
    }
}

/// Returns the row of a kernel that has no implementation to show.
fn empty_row(kernel: &KernelSpec, why: impl Display) -> [Cell; 7] {
    let none = || Cell::from("-");
    [
        versioned(kernel),
        kernel.origin().into(),
        none(),
        none(),
        none(),
        none(),
        Cell::new(Tone::Caution, why),
    ]
}

fn site_table() -> Table<5> {
    let mut table = Table::new(["site", "layer", "kernel", "computes", "written at"]).fit([
        Fit::Item,
        Fit::Wrap,
        Fit::Wrap,
        Fit::Wrap,
        Fit::File,
    ]);
    for site in registry::sites() {
        let spec = site.spec();
        table.row([
            site.name(),
            spec.layer.unwrap_or("-").to_owned(),
            spec.kernel.to_owned(),
            as_written(spec.key),
            format!("{}:{}", spec.file, spec.line),
        ]);
    }
    table
}
