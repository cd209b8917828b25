//! The findings as text and as JSON.

use super::npu::Npu;
use kernels_io::{Cell, Table, Tone};
use serde_json::{Value, json};

/// The findings, in the order of the checks.
#[derive(Default)]
pub struct Report {
    lines: Vec<Line>,
}

struct Line {
    area: String,
    state: String,
    text: String,
    advice: Option<String>,
}

impl Report {
    /// Adds a finding. `state` is `ok`, `note` or `missing`.
    pub fn add(
        &mut self,
        area: impl ToString,
        state: impl ToString,
        text: impl Into<String>,
        advice: Option<String>,
    ) {
        self.lines.push(Line {
            area: area.to_string(),
            state: state.to_string(),
            text: text.into(),
            advice,
        });
    }

    /// Returns the report as JSON.
    pub fn json(&self, npu: &Npu) -> Value {
        let findings: Vec<_> = self
            .lines
            .iter()
            .map(|line| {
                json!({
                    "area": line.area,
                    "state": line.state,
                    "text": line.text,
                    "advice": line.advice,
                })
            })
            .collect();
        json!({ "findings": findings, "npu": npu.json() })
    }

    /// Returns the report as a table.
    pub fn table(&self) -> Table<3> {
        let mut table = Table::without_heading();
        for line in &self.lines {
            let tone = match line.state.as_str() {
                "ok" => Tone::Good,
                "missing" => Tone::Bad,
                _ => Tone::Caution,
            };
            let text = match &line.advice {
                Some(advice) => format!("{}\n-> {advice}", line.text),
                None => line.text.clone(),
            };
            table.row([
                line.area.as_str().into(),
                Cell::new(tone, &line.state),
                Cell::lines(Tone::Plain, text),
            ]);
        }
        table
    }
}
