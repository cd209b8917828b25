//! Tests of pictures: against Pillow, torchvision and transformers, of files made to harm, of settings, of tokens,
//! and of records.

mod decoded;
mod fixtures;
mod hostile;
mod patches;
mod placeholders;
mod records;
mod settings;
