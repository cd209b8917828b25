//! The four kinds of an operand: one tensor, a tensor that may be missing, a list, and a list of lists.

/// Expands to the code for a field of one of the four kinds.
macro_rules! kind {
    (read One $from:ident) => { $from.one() };
    (read Maybe $from:ident) => { $from.maybe() };
    (read List $from:ident) => { $from.list() };
    (read Lists $from:ident) => { $from.lists() };
    (value Maybe $from:ident) => { $from.maybe().unwrap_or_default() };
    (value $kind:ident $from:ident) => { $crate::ops::fused::kinds::kind!(read $kind $from) };
    (length One $of:tt $to:ident) => {};
    (length Maybe $of:tt $to:ident) => { $to.push(usize::from($of.is_some())) };
    (length List $of:tt $to:ident) => { $to.push($of.len()) };
    (length Lists $of:tt $to:ident) => {
        $to.push($of.len());
        $to.extend($of.iter().map(Vec::len));
    };
    (values One $of:tt $lengths:ident $to:ident) => { $to.push($of) };
    (values Maybe $of:tt $lengths:ident $to:ident) => {
        if $lengths.next() == Some(&1) {
            $to.push($of);
        }
    };
    (values List $of:tt $lengths:ident $to:ident) => {
        $lengths.next();
        $to.extend($of);
    };
    (values Lists $of:tt $lengths:ident $to:ident) => {
        let lists = $lengths.next().copied().unwrap_or_default();
        $lengths.by_ref().take(lists).for_each(drop);
        $to.extend($of.into_iter().flatten());
    };
    (input One $rank:tt) => { burn::tensor::Tensor<$rank> };
    (input Maybe $rank:tt) => { Option<burn::tensor::Tensor<$rank>> };
    (input List $rank:tt) => { Vec<burn::tensor::Tensor<$rank>> };
    (to_dispatch One $of:tt) => { $of.into_dispatch() };
    (to_dispatch Maybe $of:tt) => { $of.map(burn::tensor::Tensor::into_dispatch) };
    (to_dispatch List $of:tt) => {
        $of.into_iter().map(burn::tensor::Tensor::into_dispatch).collect()
    };
    (from_dispatch One $of:tt) => { burn::tensor::Tensor::from_dispatch($of) };
    (from_dispatch Maybe $of:tt) => { $of.map(burn::tensor::Tensor::from_dispatch) };
    (from_dispatch List $of:tt) => {
        $of.into_iter().map(burn::tensor::Tensor::from_dispatch).collect()
    };
    (facts One $of:tt) => { $of.into() };
    (facts Maybe $of:tt) => { $of.as_ref().map(Into::into) };
    (facts List $of:tt) => { $of.iter().map(Into::into).collect() };
}
pub(crate) use kind;

/// The values of an operand's tensors in `Each`, by its kind.
pub mod each {
    /// That of one tensor.
    pub type One<T> = T;
    /// That of a tensor that may be missing.
    pub type Maybe<T> = T;
    /// Those of a list.
    pub type List<T> = Vec<T>;
    /// Those of a list of lists.
    pub type Lists<T> = Vec<Vec<T>>;
}
