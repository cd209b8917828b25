//! A file for trace viewers, with the spans of sites.

use anyhow::Context;
use std::fs::File;
use std::path::Path;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_chrome::{ChromeLayerBuilder, EventOrSpan};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context as Place, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// Runs some work and writes the spans of sites on all threads.
pub fn record(path: &Path, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let file = File::create(path).with_context(|| format!("{} can't be made", path.display()))?;
    let (chrome, flush) = ChromeLayerBuilder::new()
        .writer(file)
        .include_args(true)
        .include_locations(false)
        .name_fn(Box::new(name))
        .build();
    let sites =
        Targets::new().with_target(burn_kernels::dispatch::SPAN_TARGET, tracing::Level::TRACE);
    let listener = Registry::default().with(Names).with(chrome).with(sites);
    let result = tracing::subscriber::with_default(listener, work);
    drop(flush);
    result
}

/// The name of a span in the viewer.
struct Name(String);

fn name<S>(of: &EventOrSpan<'_, '_, S>) -> String
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    match of {
        EventOrSpan::Event(event) => event.metadata().name().to_owned(),
        EventOrSpan::Span(span) => match span.extensions().get::<Name>() {
            Some(Name(name)) => name.clone(),
            None => span.name().to_owned(),
        },
    }
}

/// Names spans after their sites.
struct Names;

impl<S> Layer<S> for Names
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, place: Place<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = place.span(id) {
            span.extensions_mut().insert(fields.name());
        }
    }
}

#[derive(Default)]
struct Fields {
    site: String,
    pass: String,
}

impl Fields {
    /// Returns the last two words of the site's path, and that a span is of a gradient.
    fn name(&self) -> Name {
        let words = self.site.rmatch_indices("::").nth(1);
        let site = words.map_or(&*self.site, |(at, colons)| &self.site[at + colons.len()..]);
        Name(match &*self.pass {
            "backward" => format!("{site} (backward)"),
            _ => site.to_owned(),
        })
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "site" => self.site = value.to_owned(),
            "pass" => self.pass = value.to_owned(),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
