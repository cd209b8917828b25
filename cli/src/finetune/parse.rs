//! The numbers of options.

use crate::text::Date;
use crate::training::plan::MOST_STEPS;

/// The largest factor, norm or number of epochs. Products of some stay finite in f32.
const MOST: f64 = 1e9;

/// The smallest factor or norm. The square of its inverse stays finite in f32.
const LEAST: f64 = 1e-9;

/// The lowest temperature. Logits divided by it stay finite in f32.
const LEAST_TEMPERATURE: f64 = 1e-6;

/// The largest decay of weights. Usual ones are far below 1.
const MOST_DECAY: f64 = 1e3;

/// Parses a number of things.
pub fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=MOST_STEPS).contains(&number) => Ok(number),
        _ => Err(format!("expected a whole number from 1 to {MOST_STEPS}")),
    }
}

/// Parses a number above 0.
pub fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (LEAST..=MOST).contains(&number) => Ok(number),
        Ok(number) if number > 0.0 && number < LEAST => {
            Err(format!("expected a number of at least {LEAST}"))
        }
        _ => Err(format!("expected a number above 0 and at most {MOST}")),
    }
}

/// Parses a temperature.
pub fn temperature(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (LEAST_TEMPERATURE..=MOST).contains(&number) => Ok(number),
        _ => Err(format!(
            "expected a number from {LEAST_TEMPERATURE} to {MOST}"
        )),
    }
}

/// Parses a number of at least 0.
pub fn from_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=MOST).contains(&number) => Ok(number),
        _ => Err(format!("expected a number from 0 to {MOST}")),
    }
}

/// Parses a decay of weights.
pub fn decay(text: &str) -> Result<f32, String> {
    match from_zero(text) {
        Ok(number) if number <= MOST_DECAY => Ok(number as f32),
        _ => Err(format!("expected a number from 0 to {MOST_DECAY}")),
    }
}

/// Parses a date.
pub fn date(text: &str) -> Result<Date, String> {
    let date = text.parse::<Date>().ok().filter(|date| date.year() > 0);
    date.ok_or_else(|| "expected a date such as 2024-07-26".to_owned())
}

/// Parses a part of a whole.
pub fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..1.0).contains(&number) => Ok(number),
        _ => Err("expected a number of at least 0 and below 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temperature_keeps_logits_finite() {
        assert_eq!(temperature("0.5"), Ok(0.5));
        for text in ["0", "1e-300", "-1", "NaN", "inf", "hot"] {
            let said = temperature(text).unwrap_err();
            assert!(said.contains("from 0.000001 to"), "{text}: {said}");
        }
    }
}
