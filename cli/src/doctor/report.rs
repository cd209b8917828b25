//! What was found, as text and as JSON.

use super::npu::Npu;
use serde_json::{Value, json};
use std::fmt;

/// What was found, in the order in which it was looked at.
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
    /// Adds what was found; `state` is `ok`, `note` or `missing`.
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

    /// The report for programs.
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
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |cell: fn(&Line) -> &str| {
            let lengths = self.lines.iter().map(|line| cell(line).chars().count());
            lengths.max().unwrap_or(0)
        };
        let (area, state) = (width(|line| &line.area), width(|line| &line.state));
        for (index, line) in self.lines.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let (name, standing) = (&line.area, &line.state);
            let next_line = format!("\n{:area$}  {:state$}  ", "", "");
            let text = line.text.replace('\n', &next_line);
            write!(f, "{name:area$}  {standing:state$}  {text}")?;
            if let Some(advice) = &line.advice {
                write!(f, "{next_line}-> {}", advice.replace('\n', &next_line))?;
            }
        }
        Ok(())
    }
}
