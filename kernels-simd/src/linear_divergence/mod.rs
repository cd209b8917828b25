//! The divergence of a student's tokens from a teacher's, from the hidden states and output weights of both: the logits of some
//! tokens at a time.
//!
//! The classes are divided into groups as those of the [linear cross-entropy](crate::linear_cross_entropy), whose products
//! these are. The logits of a chunk of tokens are kept while three passes read them: for the sums of their exponentials, for
//! the divergence, and for the gradient of the student's logits. Where one vocabulary has more classes, these are padding,
//! and no part of either distribution. Results don't depend on the number of threads.

mod terms;

use crate::cross_entropy::Sums;
use crate::keys::OutputLayout;
use crate::lanes::dispatch;
use crate::linear_cross_entropy::chunks::{add_shares, zeros};
use crate::linear_cross_entropy::group::{self, Group, classes_of_group, groups};
use crate::linear_cross_entropy::{Gradients, Sizes, Wanted, Weight};
use crate::product::{Gemm, Right, Rows};
use crate::{Element, Output, Real, Values, View, share, with_type};
use std::mem::size_of;
use std::ops::Range;
use terms::{Kind, Pair, Scale, Soften, Terms, Token};

/// The hidden states and the output layer of a student or of a teacher.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// The hidden states, `[tokens, width]`, contiguous.
    pub hidden: View<'a>,
    /// The weight of the output layer, `[width, classes]`, of which one axis is contiguous.
    pub weight: View<'a>,
    /// The bias, `[classes]`, contiguous.
    pub bias: Option<View<'a>>,
    /// The limit of the logits, if there is one.
    pub cap: Option<f64>,
}

/// The operands.
#[derive(Clone, Debug)]
pub struct Operands<'a> {
    /// The student.
    pub student: Head<'a>,
    /// The teacher.
    pub teacher: Head<'a>,
    /// The factor of each token, `[tokens]`, contiguous, in the type that everything is computed in.
    pub factors: View<'a>,
    /// The weight of the teacher in the mixture, from 0 to 1.
    pub mixture: f64,
    /// The number that logits are divided by.
    pub temperature: f64,
}

/// The results, in the type that they are computed in: f32, or f64 for f64.
#[derive(Clone, Debug)]
pub struct Found {
    /// The sum of the divergences, each with its factor: one number.
    pub sum: Values,
    /// The divergence of each token.
    pub each: Values,
    /// The wanted gradients of the sum, the weight's as `[classes, width]`.
    pub gradients: Gradients,
}

impl Head<'_> {
    /// # Panics
    /// Panics if the sizes don't go together.
    fn sizes(&self) -> Sizes {
        let (&[tokens, width], &[inputs, classes]) = (self.hidden.sizes(), self.weight.sizes())
        else {
            panic!("hidden states and weights have two axes each")
        };
        let bias = self.bias.as_ref().map(View::sizes);
        assert!(
            inputs == width && bias.is_none_or(|bias| bias == [classes]),
            "hidden states of {width} elements, a weight of {inputs} and a bias of {bias:?} have no logits of {classes} classes"
        );
        Sizes {
            tokens,
            width,
            classes,
        }
    }
}

/// Returns the largest number of tokens whose logits, of `bytes` each, are computed together: a student's and a teacher's.
pub fn chunk(tokens: usize, classes: usize, bytes: usize) -> usize {
    let both = Sizes {
        tokens,
        width: 0,
        classes: classes.saturating_mul(2),
    };
    both.chunk(bytes)
}

/// Returns the divergences and the wanted gradients of their sum.
///
/// # Panics
/// Panics if sizes or types don't go together, if there is no class, or if a tensor can't be read in place.
pub fn forward(operands: &Operands<'_>, wanted: Wanted) -> Found {
    with_type!(operands.student.hidden.dtype(), T => forward_in::<T>(operands, wanted))
}

fn forward_in<T: Element>(operands: &Operands<'_>, wanted: Wanted) -> Found
where
    T::Acc: Gemm,
{
    let sizes = [&operands.student, &operands.teacher].map(Head::sizes);
    let [Sizes { tokens, width, .. }, teacher] = sizes;
    let factors = operands.factors.contiguous::<T::Acc>();
    assert!(
        teacher.tokens == tokens && factors.len() == tokens,
        "there are {tokens} tokens of a student, {} of a teacher and {} factors",
        teacher.tokens,
        factors.len()
    );
    let all = sizes[0].classes;
    let classes = all.min(teacher.classes);
    assert!(classes > 0, "there is no class");
    let mut each = Vec::with_capacity(tokens);
    let mut hidden = wanted.hidden.then(|| zeros(tokens * width));
    let mut bias = wanted.bias.then(|| zeros(all));
    let mut weight = wanted.weight.then(|| Output::new([all, width]));
    let rest = weight.as_mut().map(|weight| {
        let mut rest = weight.rest();
        let used = rest.part(if tokens > 0 { classes * width } else { 0 });
        rest.filled(<T::Acc as Real>::ZERO);
        used
    });
    if tokens == 0 {
        drop(rest);
    } else {
        let count = chunk(tokens, classes, size_of::<T::Acc>());
        let written = group::Wanted {
            weight: rest,
            logits: None,
            bias: bias.as_deref_mut().map(|bias| &mut bias[..classes]),
        };
        let [student, teacher] = sizes.map(|sizes| Sizes { classes, ..sizes });
        let of_group = classes_of_group::<T::Acc>(student, count);
        let none = group::Wanted {
            weight: None,
            logits: None,
            bias: None,
        };
        let pairs = groups(student, of_group, written);
        let pairs = pairs.into_iter().zip(groups(teacher, of_group, none));
        let mut chunks = Chunks::<T>::new(operands, factors, wanted, pairs.collect());
        for start in (0..tokens).step_by(count) {
            let tokens = start..(start + count).min(tokens);
            chunks.run(tokens, &mut each, hidden.as_deref_mut());
        }
    }
    let products = factors.iter().zip(&each);
    let sum: f64 = products.map(|(f, d)| f.into_f64() * d.into_f64()).sum();
    Found {
        sum: T::Acc::values(vec![T::Acc::of(sum)]),
        each: T::Acc::values(each),
        gradients: Gradients {
            hidden: hidden.map(T::Acc::values),
            weight: weight.map(|weight| T::Acc::values(weight.into_values())),
            bias: bias.map(T::Acc::values),
        },
    }
}

/// A student or a teacher.
struct Side<'a, T: Element> {
    hidden: &'a [T],
    width: usize,
    head: group::Head<'a, T>,
    scale: Scale<T::Acc>,
}

impl<'a, T: Element> Side<'a, T>
where
    T::Acc: Gemm,
{
    fn new(of: &'a Head<'a>, temperature: f64) -> Self {
        let weight = Weight::Floats(of.weight.clone(), OutputLayout::InputMajor);
        Self {
            hidden: of.hidden.contiguous(),
            width: of.hidden.sizes()[1],
            head: group::Head::new(&weight, of.bias.as_ref()),
            scale: Scale::new(temperature, of.cap),
        }
    }

    /// Returns the hidden states of some tokens.
    fn rows(&self, tokens: &Range<usize>) -> Vec<T::Acc> {
        let rows = &self.hidden[tokens.start * self.width..tokens.end * self.width];
        rows.iter().map(|x| x.load()).collect()
    }

    /// Computes the logits of a group, which keeps them, and returns the sums of each token.
    fn logits(&self, group: &mut Group<'_, T>, rows: &Rows<'_, T::Acc>) -> Vec<Sums<T::Acc>> {
        let mut sums = vec![Sums::NONE; rows.count()];
        group.logits(&self.head, rows, true, |logits| {
            let (scale, sums) = (self.scale, &mut sums[..]);
            dispatch(Soften {
                logits,
                scale,
                sums,
            });
        });
        sums
    }
}

/// The chunks of tokens, and what they share.
struct Chunks<'a, T: Element> {
    sides: [Side<'a, T>; 2],
    factors: &'a [T::Acc],
    kind: Kind<T::Acc>,
    wanted: Wanted,
    /// The groups of classes, of the student and of the teacher.
    groups: Vec<(Group<'a, T>, Group<'a, T>)>,
}

impl<'a, T: Element> Chunks<'a, T>
where
    T::Acc: Gemm,
{
    fn new(
        operands: &'a Operands<'a>,
        factors: &'a [T::Acc],
        wanted: Wanted,
        groups: Vec<(Group<'a, T>, Group<'a, T>)>,
    ) -> Self {
        let sides = [&operands.student, &operands.teacher];
        Self {
            sides: sides.map(|side| Side::new(side, operands.temperature)),
            factors,
            kind: Kind::new(operands.mixture),
            wanted,
            groups,
        }
    }

    /// Appends the divergences of some tokens, and adds to their gradients.
    fn run(
        &mut self,
        tokens: Range<usize>,
        each: &mut Vec<T::Acc>,
        d_hidden: Option<&mut [T::Acc]>,
    ) {
        let count = tokens.len();
        let [student, teacher] = &self.sides;
        let hidden = [student, teacher].map(|side| side.rows(&tokens));
        let rows = [
            Rows::new(&hidden[0], count, student.width),
            Rows::new(&hidden[1], count, teacher.width),
        ];
        let groups = &mut self.groups;
        let sums = share::map(groups.iter_mut().collect(), |group: &mut (_, _)| {
            let of_student = student.logits(&mut group.0, &rows[0]);
            (of_student, teacher.logits(&mut group.1, &rows[1]))
        });
        let (of_student, of_teacher): (Vec<_>, Vec<_>) = sums.into_iter().unzip();
        let sums = total(of_student).into_iter().zip(total(of_teacher));
        let mut known: Vec<_> = sums.map(|(s, t)| Token::new(self.kind, &s, &t)).collect();
        let parts = share::map(groups.iter_mut().collect(), |group: &mut (_, _)| {
            terms_of(&student.head, group, &known)
        });
        for (at, token) in known.iter_mut().enumerate() {
            let parts = parts.iter().map(|part: &Vec<[T::Acc; 2]>| part[at]);
            let factor = self.factors[tokens.start + at] * student.scale.inverse();
            each.push(token.finish(parts, factor));
        }
        if !self.wanted.any() {
            return;
        }
        let hidden = self.wanted.weight;
        let hidden = hidden.then(|| Right::new::<T>(rows[0].values(), count, student.width));
        share::each(groups.iter_mut().collect(), |group: &mut (_, _)| {
            let (of_student, of_teacher): &mut (Group<'_, T>, Group<'_, T>) = group;
            let pair = Pair {
                tokens: &known,
                teacher: of_teacher.kept(),
                limit: student.scale.limit(),
            };
            of_student.gradients(&student.head, &pair, hidden.as_ref(), d_hidden.is_some());
        });
        if let Some(d_hidden) = d_hidden {
            let shares: Vec<_> = groups.iter().map(|(group, _)| group.share()).collect();
            add_shares(tokens, &shares, student.width, d_hidden);
        }
    }
}

/// Returns the sums of each token over all groups.
fn total<A: Real>(of_groups: Vec<Vec<Sums<A>>>) -> Vec<Sums<A>> {
    let mut of_groups = of_groups.into_iter();
    let mut all = of_groups.next().unwrap_or_default();
    for of_group in of_groups {
        let pairs = all.iter_mut().zip(of_group);
        pairs.for_each(|(all, of_group)| all.add(of_group));
    }
    all
}

/// Returns a group's part of the terms of each token.
fn terms_of<T: Element>(
    head: &group::Head<'_, T>,
    (student, teacher): &(Group<'_, T>, Group<'_, T>),
    tokens: &[Token<T::Acc>],
) -> Vec<[T::Acc; 2]>
where
    T::Acc: Gemm,
{
    let mut sums = vec![[<T::Acc as Real>::ZERO; 2]; tokens.len()];
    let mut start = 0;
    for width in student.widths(head) {
        let place = start..start + width * tokens.len();
        start = place.end;
        dispatch(Terms {
            student: &student.kept()[place.clone()],
            teacher: &teacher.kept()[place],
            width,
            tokens,
            sums: &mut sums,
        });
    }
    sums
}
