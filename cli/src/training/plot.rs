//! The plot `loss.svg`.

use super::metrics::{Point, TRAIN, VALID};
use anyhow::anyhow;
use plotters::prelude::*;
use std::ops::Range;

const SIZE: (u32, u32) = (800, 480);
const TRAIN_COLOUR: RGBColor = RGBColor(120, 160, 210);
const VALID_COLOUR: RGBColor = RGBColor(200, 60, 40);

/// Plots training and validation loss over steps. `of` describes the loss: `in nats per token`.
///
/// # Errors
/// Returns an error if plotting fails. Finite losses cause none.
pub fn svg(points: &[Point], of: &str) -> anyhow::Result<String> {
    let mut svg = String::new();
    draw(&mut svg, points, of).map_err(|error| anyhow!("cannot draw loss.svg: {error}"))?;
    Ok(svg)
}

fn draw(svg: &mut String, points: &[Point], of: &str) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(steps(points), losses(points))?;
    chart
        .configure_mesh()
        .x_desc("step")
        .y_desc(format!("loss {of}"))
        .x_label_formatter(&|step| format!("{step:.0}"))
        .max_light_lines(0)
        .draw()?;
    chart
        .draw_series(LineSeries::new(series(points, TRAIN), TRAIN_COLOUR))?
        .label("training")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], TRAIN_COLOUR));
    chart
        .draw_series(LineSeries::new(
            series(points, VALID),
            VALID_COLOUR.stroke_width(2),
        ))?
        .label("validation")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], VALID_COLOUR.stroke_width(2)));
    // A run may have a single validation, which a line can't show.
    let dots = series(points, VALID).map(|at| Circle::new(at, 3, VALID_COLOUR.filled()));
    chart.draw_series(dots)?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    area.present()?;
    Ok(())
}

fn series<'a>(points: &'a [Point], split: &'a str) -> impl Iterator<Item = (f64, f64)> + 'a {
    let points = points.iter().filter(move |point| point.split == split);
    points.map(|point| (point.step as f64, point.loss))
}

fn steps(points: &[Point]) -> Range<f64> {
    let last = points.iter().map(|point| point.step).max().unwrap_or(0);
    0.0..last.max(1) as f64
}

/// Returns a range slightly larger than that of the losses.
fn losses(points: &[Point]) -> Range<f64> {
    let losses = || points.iter().map(|point| point.loss);
    let lowest = losses().fold(f64::INFINITY, f64::min);
    let highest = losses().fold(f64::NEG_INFINITY, f64::max);
    if lowest > highest {
        return 0.0..1.0;
    }
    let margin = ((highest - lowest) * 0.05).max(1e-3);
    lowest - margin..highest + margin
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(step: usize, split: &str, loss: f64) -> Point {
        Point {
            step,
            epoch: 1,
            split: split.to_owned(),
            loss,
            load_balancing_loss: None,
            tokens_per_s: 1.0,
            lr: None,
            grad_norm: None,
            memory_bytes: None,
            seconds: 0.0,
            metrics: Default::default(),
        }
    }

    #[test]
    fn both_curves_are_drawn() {
        let points = [
            point(1, TRAIN, 5.0),
            point(2, TRAIN, 4.0),
            point(2, VALID, 4.5),
        ];
        let svg = svg(&points, "in nats per byte").unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("training") && svg.contains("validation") && svg.contains("<circle"));
    }

    #[test]
    fn no_range_is_empty() {
        assert!(svg(&[point(1, TRAIN, 5.0)], "in nats per byte").is_ok());
        assert!(svg(&[], "in nats per byte").is_ok());
    }
}
