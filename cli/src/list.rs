//! `kernels list`: what is linked into this program.

use crate::choice::DeviceChoice;
use crate::output;
use crate::table::Table;
use burn_kernels::dispatch::DeviceKind;
use burn_kernels::registry::{self, Gradient, Implementation, KernelSpec, Site};
use serde_json::{Value, json};

/// List the kernels and annotated sites that are linked into this program
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The device for which to say whether an implementation is there.
    #[arg(long, default_value = "cpu")]
    device: DeviceChoice,
    /// Print JSON.
    #[arg(long)]
    json: bool,
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
        output::text(format_args!("{}\n\n{}", kernel_table(here), site_table()))
    }
}

/// The device that availability is told for.
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

    /// Why the implementation can't run here; `None` if it can.
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

    /// The spec, with `unavailable` for each implementation: null, or why it can't run here.
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

fn kernel_table(here: Here) -> Table<8> {
    let mut table = Table::new([
        "kernel",
        "version",
        "crate",
        "implementation",
        "device",
        "dtypes",
        "gradient",
        "here",
    ]);
    for kernel in registry::kernels() {
        let rows: Vec<_> = kernel
            .implementations
            .iter()
            .map(|implementation| implementation_row(kernel, implementation, here))
            .collect();
        if rows.is_empty() {
            table.row(empty_row(
                kernel,
                "no implementation in this build".to_owned(),
            ));
        }
        for row in rows {
            table.row(row);
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
) -> [String; 8] {
    let dtypes: Vec<_> = implementation.dtypes.iter().map(|d| d.name()).collect();
    [
        kernel.id.to_owned(),
        kernel.version.to_string(),
        kernel.origin(),
        implementation.name.to_owned(),
        implementation.device.to_string(),
        dtypes.join(" "),
        gradient(implementation.gradient).to_owned(),
        here.unavailable(implementation)
            .unwrap_or_else(|| "yes".to_owned()),
    ]
}

fn gradient(gradient: Gradient) -> &'static str {
    match gradient {
        Gradient::None => "no",
        Gradient::Kernel => "yes",
        Gradient::Reference => "reference's",
    }
}

/// The row of a kernel without an implementation to show.
fn empty_row(kernel: &KernelSpec, why: String) -> [String; 8] {
    let none = || "-".to_owned();
    [
        kernel.id.to_owned(),
        kernel.version.to_string(),
        kernel.origin(),
        none(),
        none(),
        none(),
        none(),
        why,
    ]
}

fn site_table() -> Table<5> {
    let mut table = Table::new(["site", "layer", "kernel", "computes", "written at"]);
    for site in registry::sites() {
        let spec = site.spec();
        table.row([
            site.name(),
            spec.layer.unwrap_or("-").to_owned(),
            spec.kernel.to_owned(),
            spec.key.to_string(),
            format!("{}:{}", spec.file, spec.line),
        ]);
    }
    table
}
