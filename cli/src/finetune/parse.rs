//! The numbers of options.

/// Parses a number of things.
pub fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("expected a whole number of at least 1".to_owned()),
    }
}

/// Parses a number above 0.
pub fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("expected a number above 0".to_owned()),
    }
}

/// Parses a number of at least 0.
pub fn from_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err("expected a number of at least 0".to_owned()),
    }
}

/// Parses a decay of weights.
pub fn decay(text: &str) -> Result<f32, String> {
    from_zero(text).map(|number| number as f32)
}

/// Parses a part of a whole.
pub fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..1.0).contains(&number) => Ok(number),
        _ => Err("expected a number of at least 0 and below 1".to_owned()),
    }
}
