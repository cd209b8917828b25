/// Turns a closure that may be called only once into one that can be passed by reference. A second call panics.
///
/// Every site has closures of its own types. A function that takes them by reference as trait objects is compiled once,
/// and not once per site.
pub fn once<A, R>(f: impl FnOnce(A) -> R) -> impl FnMut(A) -> R {
    let mut f = Some(f);
    move |argument| f.take().expect("a body runs once a call")(argument)
}
