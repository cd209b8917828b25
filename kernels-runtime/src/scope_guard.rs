/// Defines a guard of a thread-local setting. Dropping the guard restores the previous value.
macro_rules! guard {
    ($(#[$doc:meta])* $vis:vis $Guard:ident($Outer:ty), $put_back:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        $vis struct $Guard {
            outer: $Outer,
            _this_thread_only: ::std::marker::PhantomData<*const ()>,
        }

        impl $Guard {
            fn over(outer: $Outer) -> Self {
                let _this_thread_only = ::std::marker::PhantomData;
                Self { outer, _this_thread_only }
            }
        }

        impl Drop for $Guard {
            fn drop(&mut self) {
                let put_back: fn($Outer) = $put_back;
                put_back(self.outer);
            }
        }
    };
}
pub(crate) use guard;
