//! Passes over the logits of a student and a teacher. With the logarithms `a` and `b` of a class's probabilities by the student
//! and the teacher, and `m` of that which both are compared with:
//!
//! * `KL(T‖S)` is the sum of `eᵇ (b − a)`, and its gradient by a student's logit `eᵃ − eᵇ`;
//! * `KL(S‖T)` is the sum of `eᵃ (a − b)`, and its gradient `eᵃ (a − b − KL)`;
//! * else `eᵐ = (1 − β) eᵃ + β eᵇ`, the divergence is `β KL(T‖M) + (1 − β) KL(S‖M)` with the same sums of differences to `m`,
//!   and its gradient `(1 − β) eᵃ (a − m − KL(S‖M))`.

use crate::cross_entropy::{Loss, Settings, Sums};
use crate::lanes::Task;
use crate::linear_cross_entropy::block::{OfLogits, add_bias};
use crate::linear_cross_entropy::group::Logits;
use crate::{Context, Element, LANES, Lanes as _, Number, Read, Real, sum_of_terms};

/// The divergence.
#[derive(Clone, Copy)]
pub(super) enum Kind<N> {
    /// `KL(T‖S)`.
    Forward,
    /// `KL(S‖T)`.
    Reverse,
    /// The generalised Jensen–Shannon divergence, with the logarithms of `β` and `1 − β`.
    Mixed { ln_teacher: N, ln_student: N },
}

impl<A: Real> Kind<A> {
    pub(super) fn new(mixture: f64) -> Self {
        match mixture {
            0.0 => Self::Forward,
            1.0 => Self::Reverse,
            _ => Self::Mixed {
                ln_teacher: A::of(mixture.ln()),
                ln_student: A::of((-mixture).ln_1p()),
            },
        }
    }

    #[inline(always)]
    fn lanes<C: Context>(self, c: C) -> Kind<C::Of<A>> {
        match self {
            Self::Forward => Kind::Forward,
            Self::Reverse => Kind::Reverse,
            Self::Mixed {
                ln_teacher,
                ln_student,
            } => Kind::Mixed {
                ln_teacher: C::Of::splat(c, ln_teacher),
                ln_student: C::Of::splat(c, ln_student),
            },
        }
    }
}

/// What is applied to the logits of products: a cap, and the temperature.
#[derive(Clone, Copy)]
pub(super) struct Scale<A> {
    inverse: A,
    limit: Option<A>,
}

impl<A: Real> Scale<A> {
    pub(super) fn new(temperature: f64, cap: Option<f64>) -> Self {
        Self {
            inverse: A::of(1.0 / temperature),
            limit: cap.map(|cap| A::of(cap / temperature)),
        }
    }

    /// Returns the inverse of the temperature.
    pub(super) fn inverse(self) -> A {
        self.inverse
    }

    /// Returns the limit of scaled logits.
    pub(super) fn limit(self) -> Option<A> {
        self.limit
    }

    /// Scales the logits of a token.
    #[inline(always)]
    fn apply<C: Context>(self, c: C, row: &mut [A])
    where
        A: Element<Acc = A>,
    {
        if self.limit.is_none() && self.inverse == A::ONE {
            return;
        }
        let (inverse, limit) = (C::Of::splat(c, self.inverse), splat(c, self.limit));
        let (blocks, rest) = row.as_chunks_mut::<LANES>();
        for block in blocks {
            *block = scaled(A::lanes(c, block), inverse, limit).values();
        }
        for logit in rest {
            *logit = scaled(*logit, self.inverse, self.limit);
        }
    }
}

// A closure would be a function of its own, without the context's instructions.
#[allow(clippy::manual_map)]
#[inline(always)]
fn splat<A: Real, C: Context>(c: C, value: Option<A>) -> Option<C::Of<A>> {
    match value {
        Some(value) => Some(C::Of::splat(c, value)),
        None => None,
    }
}

#[inline(always)]
fn scaled<N: Number>(logit: N, inverse: N, limit: Option<N>) -> N {
    match limit {
        Some(limit) => limit * (logit * inverse / limit).tanh(),
        None => logit * inverse,
    }
}

/// Scales logits, and adds their sums to those of the tokens.
pub(super) struct Soften<'a, A> {
    pub(super) logits: Logits<'a, A>,
    pub(super) scale: Scale<A>,
    pub(super) sums: &'a mut [Sums<A>],
}

/// Only the sums of exponentials are read, so the loss is that without anything.
const PLAIN: Settings = Settings {
    label_smoothing: 0.0,
    cap: None,
    z_loss: 0.0,
};

impl<A: Real + Element<Acc = A>> Task for Soften<'_, A> {
    type Acc = A;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let mut logits = self.logits;
        let loss = Loss::new(PLAIN, logits.width);
        let rows = logits.values.chunks_exact_mut(logits.width);
        for (row, sums) in rows.zip(self.sums) {
            add_bias(row, logits.bias);
            self.scale.apply(c, row);
            sums.add(loss.sums(c, row));
            if let Some(kept) = &mut logits.kept {
                kept.extend_from_slice(row);
            }
        }
    }
}

/// The numbers of a token by which its logits become logarithms of probabilities: the shift, and the logarithm of the sum.
#[derive(Clone, Copy)]
struct Logs<N> {
    student: [N; 2],
    teacher: [N; 2],
    kind: Kind<N>,
}

impl<A: Real> Logs<A> {
    #[inline(always)]
    fn lanes<C: Context>(&self, c: C) -> Logs<C::Of<A>> {
        let ([a, b], [x, y]) = (self.student, self.teacher);
        Logs {
            student: [C::Of::splat(c, a), C::Of::splat(c, b)],
            teacher: [C::Of::splat(c, x), C::Of::splat(c, y)],
            kind: self.kind.lanes(c),
        }
    }
}

impl<N: Number> Logs<N> {
    /// Returns the logarithms of the probabilities of a class: the student's, the teacher's, and that which both are
    /// compared with.
    #[inline(always)]
    fn of(&self, student: N, teacher: N) -> [N; 3] {
        let a = (student - self.student[0]) - self.student[1];
        let b = (teacher - self.teacher[0]) - self.teacher[1];
        let m = match self.kind {
            Kind::Forward => a,
            Kind::Reverse => b,
            Kind::Mixed {
                ln_teacher,
                ln_student,
            } => {
                let (x, y) = (a + ln_student, b + ln_teacher);
                let most = x.at_least(y);
                most + (x.at_most(y) - most).exp().ln_1p()
            }
        };
        [a, b, m]
    }

    /// Returns the terms of the divergences of the teacher and of the student from what both are compared with.
    #[inline(always)]
    fn terms(&self, student: N, teacher: N) -> [N; 2] {
        let [a, b, m] = self.of(student, teacher);
        let zero = a.like(0.0);
        match self.kind {
            Kind::Forward => [b.exp() * (b - m), zero],
            Kind::Reverse => [zero, a.exp() * (a - m)],
            Kind::Mixed { .. } => [b.exp() * (b - m), a.exp() * (a - m)],
        }
    }

    /// Returns the gradient of a student's scaled logit, without its factor. `divergence` is that of the student.
    #[inline(always)]
    fn slope(&self, student: N, teacher: N, divergence: N) -> N {
        let [a, b, m] = self.of(student, teacher);
        match self.kind {
            Kind::Forward => a.exp() - b.exp(),
            Kind::Reverse | Kind::Mixed { .. } => a.exp() * ((a - m) - divergence),
        }
    }
}

/// A token, when the sums of its logits are known.
pub(super) struct Token<A> {
    logs: Logs<A>,
    /// The divergence of the student from what both are compared with.
    divergence: A,
    /// The factor of the gradient of its logits.
    factor: A,
}

impl<A: Real> Token<A> {
    pub(super) fn new(kind: Kind<A>, student: &Sums<A>, teacher: &Sums<A>) -> Self {
        Self {
            logs: Logs {
                student: student.shift_and_log(),
                teacher: teacher.shift_and_log(),
                kind,
            },
            divergence: A::ZERO,
            factor: A::ZERO,
        }
    }

    /// Adds the parts of the terms, and returns the divergence. `factor` is that of the gradient of the logits.
    pub(super) fn finish(&mut self, parts: impl Iterator<Item = [A; 2]>, factor: A) -> A {
        let mut sums = [A::ZERO; 2];
        for part in parts {
            sums[0] += part[0];
            sums[1] += part[1];
        }
        let [of_teacher, of_student] = sums;
        self.divergence = of_student;
        let (divergence, weight) = match self.logs.kind {
            Kind::Forward => (of_teacher, A::ONE),
            Kind::Reverse => (of_student, A::ONE),
            Kind::Mixed {
                ln_teacher,
                ln_student,
            } => {
                let weight = ln_student.exp();
                (ln_teacher.exp() * of_teacher + weight * of_student, weight)
            }
        };
        self.factor = factor * weight;
        divergence
    }
}

/// Adds the terms of some classes to those of the tokens.
pub(super) struct Terms<'a, A> {
    /// The scaled logits of each token, one after the other.
    pub(super) student: &'a [A],
    pub(super) teacher: &'a [A],
    /// The number of classes.
    pub(super) width: usize,
    pub(super) tokens: &'a [Token<A>],
    pub(super) sums: &'a mut [[A; 2]],
}

impl<A: Real + Element<Acc = A>> Task for Terms<'_, A> {
    type Acc = A;
    type Output = ();

    #[inline(always)]
    fn run<C: Context>(self, c: C) {
        let rows = self.student.chunks_exact(self.width);
        let rows = rows.zip(self.teacher.chunks_exact(self.width));
        for ((student, teacher), (token, sums)) in rows.zip(self.tokens.iter().zip(self.sums)) {
            let (blocks, rest) = student.as_chunks::<LANES>();
            let (others, other_rest) = teacher.as_chunks::<LANES>();
            let row = Row {
                c,
                student: blocks.as_flattened(),
                teacher: others.as_flattened(),
                logs: token.logs.lanes(c),
            };
            let [of_teacher, of_student] = sum_of_terms(c, row.student.len(), &row);
            sums[0] += of_teacher;
            sums[1] += of_student;
            // Zeros in place of logits would be counted.
            for (student, teacher) in rest.iter().zip(other_rest) {
                let [of_teacher, of_student] = token.logs.terms(*student, *teacher);
                sums[0] += of_teacher;
                sums[1] += of_student;
            }
        }
    }
}

/// The terms of whole blocks.
struct Row<'a, A: Real, C: Context> {
    c: C,
    student: &'a [A],
    teacher: &'a [A],
    logs: Logs<C::Of<A>>,
}

impl<A: Real + Element<Acc = A>, C: Context> crate::Terms<A, C, 2> for Row<'_, A, C> {
    #[inline(always)]
    fn add<R: Read>(&self, at: usize, [first, second]: [C::Of<A>; 2]) -> [C::Of<A>; 2] {
        let student = A::lanes(self.c, &R::block(self.student, at));
        let teacher = A::lanes(self.c, &R::block(self.teacher, at));
        let [of_teacher, of_student] = self.logs.terms(student, teacher);
        [first + of_teacher, second + of_student]
    }
}

/// The gradients of a student's logits, beside the kept logits of its teacher.
pub(super) struct Pair<'a, A> {
    pub(super) tokens: &'a [Token<A>],
    pub(super) teacher: &'a [A],
    /// The limit of the student's scaled logits.
    pub(super) limit: Option<A>,
}

impl<A: Real + Element<Acc = A>> OfLogits<A> for Pair<'_, A> {
    fn count(&self) -> usize {
        self.tokens.len()
    }

    #[inline(always)]
    fn slopes<C: Context>(&self, c: C, token: usize, _: usize, place: usize, row: &mut [A]) {
        let Token {
            logs,
            divergence,
            factor,
        } = &self.tokens[token];
        let teacher = &self.teacher[place..][..row.len()];
        let (blocks, rest) = row.as_chunks_mut::<LANES>();
        let (others, other_rest) = teacher.as_chunks::<LANES>();
        let lanes = logs.lanes(c);
        let (of_student, by) = (C::Of::splat(c, *divergence), C::Of::splat(c, *factor));
        let limit = splat(c, self.limit);
        for (block, other) in blocks.iter_mut().zip(others) {
            let logits = A::lanes(c, block);
            let slope = lanes.slope(logits, A::lanes(c, other), of_student);
            *block = unscaled(slope * by, logits, limit).values();
        }
        for (logit, other) in rest.iter_mut().zip(other_rest) {
            let slope = logs.slope(*logit, *other, *divergence);
            *logit = unscaled(slope * *factor, *logit, self.limit);
        }
    }
}

/// Returns the gradient of a logit before its cap, from that of the scaled one.
#[inline(always)]
fn unscaled<N: Number>(slope: N, scaled: N, limit: Option<N>) -> N {
    match limit {
        Some(limit) => {
            let tanh = scaled / limit;
            slope * (scaled.like(1.0) - tanh * tanh)
        }
        None => slope,
    }
}
