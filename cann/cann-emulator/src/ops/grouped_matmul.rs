//! Matrix products by group.

/// Returns the ends of the groups, from their lengths if `counts`, else from their ends.
pub(crate) fn ends(list: &[i64], counts: bool) -> Vec<i64> {
    if !counts {
        return list.to_vec();
    }
    let mut end = 0;
    list.iter()
        .map(|count| {
            // An end that no i64 holds is as far beyond the rows as the largest.
            end = i64::saturating_add(end, *count);
            end
        })
        .collect()
}
