//! Matrix products by group.

/// Ends of the groups, from ends (`counts` false) or from lengths.
pub(crate) fn ends(list: &[i64], counts: bool) -> Vec<i64> {
    if !counts {
        return list.to_vec();
    }
    let mut end = 0;
    list.iter()
        .map(|count| {
            end += count;
            end
        })
        .collect()
}
