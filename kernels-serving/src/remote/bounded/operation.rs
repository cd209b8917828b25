//! The methods of Burn's traits that check the memory before they run the backend's methods.

/// Defines the methods of a trait. Each line has the signature of one or several methods and an upper bound of the
/// memory that they allocate, as a [`Need`](super::size::Need) or in bytes. After an `if`, it has the requirements on
/// the operands, as a [`Fit`](super::fit::Fit). The last line names the methods that move data from and to a client.
macro_rules! operations {
    (
        $trait:ident;

        $(
            fn $($name:ident),+ ($($argument:ident: $type:ty),* $(,)?) -> $output:ty = $need:expr $(, if $fit:expr)?;
        )*

        $(data: $from_data:ident, $into_data:ident, $kind:ident;)?
        $(also { $($also:tt)* })?
    ) => {
        impl<B: Host> $trait<Bounded<B>> for Bounded<B> {
            $(methods! {
                $($name)+ ($($argument: $type),*) -> $output = $need $(, if $fit)?
            })*

            $(fn $from_data(data: TensorData, device: &Device<Bounded<B>>) -> $kind<B> {
                whole(&data);
                let need = Need::from(made(data.shape().as_slice(), data.dtype()));
                let mut operands = Operands::new(stringify!($from_data));
                let device = Argument::<B>::open(device, &mut operands);
                let running = operands.begin(need);
                running.end(B::$from_data(data, &device))
            }

            fn $into_data(
                tensor: $kind<B>,
            ) -> impl Future<Output = Result<TensorData, ExecutionError>> + Send {
                // This counts the data, and the message that it becomes.
                let need = Need::from(like(&tensor).saturating_mul(2));
                let mut operands = Operands::new(stringify!($into_data));
                let tensor = operands.open(tensor);
                let reading = operands
                    .begin_or_say(need)
                    .map(|running| (running, B::$into_data(tensor)));
                let mistakes = B::mistakes();
                async move {
                    let (running, reading) = reading.map_err(ExecutionError::with_context)?;
                    let data = reading.await;
                    drop(running);
                    match mistakes {
                        Some(mistakes) => Err(ExecutionError::with_context(mistakes)),
                        None => data,
                    }
                }
            })?

            $($($also)*)?
        }
    };
}

/// Defines the methods of a line of [`operations`].
macro_rules! methods {
    // Passes all arguments to each method.
    ($($name:ident)+ ($($arguments:tt)*) $($rest:tt)+) => {
        methods!(@each [$($name)+] ($($arguments)*) [$($rest)+]);
    };
    (@each [$($name:ident)+] $arguments:tt $rest:tt) => {
        $(methods!(@one $name $arguments $rest);)+
    };
    (@one $name:ident ($($argument:ident: $type:ty),*) [-> $output:ty = $need:expr $(, if $fit:expr)?]) => {
        fn $name($($argument: $type),*) -> $output {
            $(require(stringify!($name), $fit);)?
            let need = Need::from($need);
            let mut operands = Operands::new(stringify!($name));
            $(let $argument = Argument::<B>::open($argument, &mut operands);)*
            let running = operands.begin(need);
            running.end(B::$name($(passed!($argument $argument)),*))
        }
    };
}

/// Converts an argument to the form that the backend's method takes.
macro_rules! passed {
    (device $device:ident) => {
        &$device
    };
    ($any:ident $argument:ident) => {
        $argument
    };
}
