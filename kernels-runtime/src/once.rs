/// A closure that can be lent, of one that is called once at most.
///
/// Every site has closures of its own types. What takes them by reference is compiled once, and not
/// once a site.
pub fn once<A, R>(f: impl FnOnce(A) -> R) -> impl FnMut(A) -> R {
    let mut f = Some(f);
    move |argument| f.take().expect("a body runs once a call")(argument)
}
