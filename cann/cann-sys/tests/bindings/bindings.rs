//! Tests that the committed bindings agree with the headers.

use std::fs;

use crate::support::generate::{AREAS, committed, include, module};

#[test]
fn committed_bindings_are_those_of_the_headers() {
    if !crate::support::libclang_or_shout("whether src/bindings is what include/cann says") {
        return;
    }
    let update = std::env::var_os("UPDATE_BINDINGS").is_some();
    let mut stale = Vec::new();
    for area in AREAS {
        let (made, path) = (module(area), committed(area));
        if update {
            fs::write(&path, made).expect("the module can be written");
        } else if fs::read_to_string(&path).ok().as_ref() != Some(&made) {
            stale.push(path);
        }
    }
    assert!(
        stale.is_empty(),
        "not what the headers say: {stale:?}; run \
         `UPDATE_BINDINGS=1 cargo test -p burn-cann-sys bindings`"
    );
}

#[test]
fn every_header_is_an_area() {
    let mut headers: Vec<String> = fs::read_dir(include().join("cann"))
        .expect("the folder is there")
        .map(|entry| {
            entry
                .expect("readable")
                .file_name()
                .into_string()
                .expect("text")
        })
        .filter(|name| name != "op.h") // a macro for the others
        .collect();
    headers.sort();
    let mut areas: Vec<String> = AREAS
        .iter()
        .map(|area| format!("{}.h", area.name))
        .collect();
    areas.sort();
    assert_eq!(headers, areas);
}
