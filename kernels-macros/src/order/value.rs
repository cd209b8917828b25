//! The values that a body holds before it uses them: references to operands, and closures over them.

/// The value of an expression, as far as operands are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Value {
    /// A value that leads to no operand: a tensor, a number.
    #[default]
    Plain,
    /// The layer itself, or a reference to it.
    This,
    /// A reference to operands, or a closure over them.
    Leads(Reach),
    /// A tuple of which something leads to an operand.
    Tuple(Vec<Value>),
}

/// The operands that are used where a value is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// The operands, by their numbers.
    pub(super) operands: Vec<usize>,
    /// True if they are used in this order.
    pub(super) is_ordered: bool,
    /// True if code that isn't seen may use any other operand too.
    pub(super) is_opaque: bool,
    /// True if it is a closure: its receiver may call it or not.
    pub(super) is_closure: bool,
}

impl Value {
    /// A reference to one operand.
    pub(super) fn operand(operand: usize) -> Self {
        Self::Leads(Reach {
            operands: vec![operand],
            is_ordered: true,
            ..Reach::default()
        })
    }

    /// Returns the operands that are used where the value is.
    pub(super) fn reach(&self) -> Reach {
        match self {
            Self::Plain => Reach {
                is_ordered: true,
                ..Reach::default()
            },
            Self::This => Reach {
                is_ordered: true,
                is_opaque: true,
                ..Reach::default()
            },
            Self::Leads(reach) => reach.clone(),
            Self::Tuple(values) => joined(values),
        }
    }

    /// Something that holds all of these.
    pub(super) fn holding(values: Vec<Self>) -> Self {
        let mut leading = values.into_iter().filter(|value| *value != Self::Plain);
        match (leading.next(), leading.next()) {
            (None, _) => Self::Plain,
            (Some(only), None) => only,
            (Some(first), Some(second)) => {
                let all: Vec<Self> = [first, second].into_iter().chain(leading).collect();
                Self::Leads(joined(&all))
            }
        }
    }

    /// A tuple of these.
    pub(super) fn tuple(values: Vec<Self>) -> Self {
        match values.iter().all(|value| *value == Self::Plain) {
            true => Self::Plain,
            false => Self::Tuple(values),
        }
    }
}

/// Joins several values, between which no order is known.
fn joined(values: &[Value]) -> Reach {
    let mut all = Reach {
        is_ordered: true,
        ..Reach::default()
    };
    for reach in values.iter().map(Value::reach) {
        let leads = !reach.operands.is_empty();
        all.is_ordered &= reach.is_ordered && (all.operands.is_empty() || !leads);
        all.is_opaque |= reach.is_opaque;
        all.is_closure |= reach.is_closure;
        for operand in reach.operands {
            if !all.operands.contains(&operand) {
                all.operands.push(operand);
            }
        }
    }
    all
}
