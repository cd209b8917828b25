//! Tests of decoding: against the packages of the formats, against the formulas, of configurations, and of parts that do not go
//! together.

mod config;
mod encoded;
mod formulas;
mod goldens;
mod hostile;
mod owned;
mod stored;
