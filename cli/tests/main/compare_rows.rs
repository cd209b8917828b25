//! Tests that the rows of the benchmark `compare` run their kernels, on few tokens.

#[path = "../../benches/compare/decoder.rs"]
mod decoder;
#[path = "../../benches/compare/families.rs"]
mod families;
#[path = "../../benches/compare/groups.rs"]
mod groups;
#[path = "../../benches/compare/layers.rs"]
mod layers;
#[path = "../../benches/compare/measure.rs"]
mod measure;
#[path = "../../benches/compare/operations.rs"]
mod operations;
#[path = "../../benches/compare/seed.rs"]
mod seed;
#[path = "../../benches/compare/setting.rs"]
mod setting;

use std::collections::HashSet;

/// The sum of products is Burn's own, without a site.
#[test]
fn every_row_but_the_sum_of_products_is_fused() {
    let _alone = crate::alone_with_the_report();
    let rows = groups::selected(&[]).unwrap();
    for mut row in rows {
        let key = row.key();
        // A group has one row more for each further size, which would be the same here.
        if row.setting.size > 1024 {
            continue;
        }
        row.setting.size = 16;
        let measured = measure::measure(row.prepare(), true);
        let expected = match key.starts_with("product_sum/") {
            true => "no site",
            false => "fused",
        };
        assert_eq!(measured.path, expected, "{key}: {:?}", measured.sites);
        assert!(measured.ms > 0.0 && measured.samples == 1, "{key}");
    }
}

#[test]
fn names_select_keys_and_beginnings_of_keys() {
    let keys = |names: &[&str]| -> Vec<String> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let rows = groups::selected(&names).unwrap();
        rows.iter().map(groups::Row::key).collect()
    };
    let all = keys(&[]);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    assert_eq!(
        keys(&["swiglu/512/f32/forward"]),
        ["swiglu/512/f32/forward"]
    );
    let both = ["adam_w/1024/f32/step", "adam_w/1024/bf16/step"];
    assert_eq!(keys(&["adam_w/1024"]), both);
    assert_eq!(keys(&["linear"]).len(), 8);
    let unknown = groups::selected(&["swigl".to_owned()]);
    assert!(
        unknown
            .err()
            .unwrap()
            .to_string()
            .contains("no row is named `swigl`")
    );
}
