//! The plots `loss.svg` and `rewards.svg`.

use super::metrics::{Point, TRAIN, VALID};
use anyhow::anyhow;
use plotters::prelude::*;
use std::ops::Range;

const SIZE: (u32, u32) = (800, 480);
const TRAIN_COLOUR: RGBColor = RGBColor(120, 160, 210);
const VALID_COLOUR: RGBColor = RGBColor(200, 60, 40);

/// The metrics of `rewards.svg`, with their colours. A run has those of its loss.
const REWARDS: [(&str, RGBColor); 5] = [
    ("rewards/chosen", RGBColor(40, 140, 70)),
    ("rewards/rejected", VALID_COLOUR),
    ("rewards/margins", TRAIN_COLOUR),
    ("margin", TRAIN_COLOUR),
    ("reward", RGBColor(40, 140, 70)),
];

/// A line of a plot.
struct Curve {
    label: &'static str,
    colour: RGBColor,
    at: Vec<(f64, f64)>,
    /// True to draw its points too: a run may have a single validation, which a line can't show.
    has_dots: bool,
}

/// Plots training and validation loss over steps. `of` describes the loss: `in nats per token`.
///
/// # Errors
/// Returns an error if plotting fails. Finite losses cause none.
pub fn svg(points: &[Point], of: &str) -> anyhow::Result<String> {
    let curve = |split, label, colour, has_dots| Curve {
        label,
        colour,
        at: series(points, split, |point| Some(point.loss)),
        has_dots,
    };
    let curves = [
        curve(TRAIN, "training", TRAIN_COLOUR, false),
        curve(VALID, "validation", VALID_COLOUR, true),
    ];
    drawn(&curves, &format!("loss {of}"), points)
        .map_err(|error| anyhow!("cannot draw loss.svg: {error}"))
}

/// Plots rewards of training over steps. Returns `None` for a loss without rewards.
///
/// # Errors
/// Returns an error if plotting fails.
#[cfg_attr(not(feature = "text"), allow(dead_code))] // `train` has no rewards
pub fn rewards(points: &[Point]) -> anyhow::Result<Option<String>> {
    let curves = REWARDS.into_iter().map(|(label, colour)| Curve {
        label,
        colour,
        at: series(points, TRAIN, |point| point.metrics.get(label).copied()),
        has_dots: false,
    });
    let curves: Vec<Curve> = curves.filter(|curve| !curve.at.is_empty()).collect();
    if curves.is_empty() {
        return Ok(None);
    }
    let drawn = drawn(&curves, "reward", points);
    drawn
        .map(Some)
        .map_err(|error| anyhow!("cannot draw rewards.svg: {error}"))
}

fn drawn(
    curves: &[Curve],
    of: &str,
    points: &[Point],
) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    draw(&mut svg, curves, of, steps(points))?;
    Ok(svg)
}

fn draw(
    svg: &mut String,
    curves: &[Curve],
    of: &str,
    steps: Range<f64>,
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(steps, values(curves))?;
    chart
        .configure_mesh()
        .x_desc("step")
        .y_desc(of)
        .x_label_formatter(&|step| format!("{step:.0}"))
        .max_light_lines(0)
        .draw()?;
    for curve in curves {
        let style = curve
            .colour
            .stroke_width(if curve.has_dots { 2 } else { 1 });
        chart
            .draw_series(LineSeries::new(curve.at.iter().copied(), style))?
            .label(curve.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        if curve.has_dots {
            let dots = curve.at.iter();
            chart.draw_series(dots.map(|at| Circle::new(*at, 3, curve.colour.filled())))?;
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    area.present()?;
    Ok(())
}

fn series(points: &[Point], split: &str, value: impl Fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
    let points = points.iter().filter(|point| point.split == split);
    points
        .filter_map(|point| Some((point.step as f64, value(point)?)))
        .filter(|(_, value)| value.is_finite())
        .collect()
}

fn steps(points: &[Point]) -> Range<f64> {
    let last = points.iter().map(|point| point.step).max().unwrap_or(0);
    0.0..last.max(1) as f64
}

/// Returns a range slightly larger than that of the values, also if these are equal and large.
fn values(curves: &[Curve]) -> Range<f64> {
    let values = || curves.iter().flat_map(|curve| &curve.at).map(|at| at.1);
    let lowest = values().fold(f64::INFINITY, f64::min);
    let highest = values().fold(f64::NEG_INFINITY, f64::max);
    if lowest > highest {
        return 0.0..1.0;
    }
    let least = lowest.abs().max(highest.abs()) * 1e-6;
    let margin = ((highest - lowest) * 0.05).max(least).max(1e-3);
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
    fn rewards_have_a_plot_if_there_are_some() {
        let mut points = [point(1, TRAIN, 5.0), point(2, TRAIN, 4.0)];
        assert!(rewards(&points).unwrap().is_none());
        points[1].metrics.insert("rewards/margins".into(), 0.5);
        let svg = rewards(&points).unwrap().unwrap();
        assert!(svg.contains("rewards/margins") && !svg.contains("rewards/chosen"));
    }

    #[test]
    fn no_range_is_empty() {
        assert!(svg(&[point(1, TRAIN, 5.0)], "in nats per byte").is_ok());
        assert!(svg(&[], "in nats per byte").is_ok());
        let mut large = point(1, TRAIN, 5.0);
        large.metrics.insert("reward".into(), 1e20);
        assert!(rewards(std::slice::from_ref(&large)).unwrap().is_some());
        let curve = Curve {
            label: "reward",
            colour: TRAIN_COLOUR,
            at: vec![(1.0, 1e20)],
            has_dots: false,
        };
        let range = values(&[curve]);
        assert!(range.start < 1e20 && range.end > 1e20, "{range:?}");
    }
}
