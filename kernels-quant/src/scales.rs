//! Scales of rectangles of a matrix.

use std::fmt;

use crate::QuantError;
use crate::encoding::Declared;
use crate::parts::Parts;
use crate::views::Floats;

/// The elements that have a scale in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scales {
    /// All of them. The scale has shape `[1]`.
    Tensor,
    /// Each row. The scales have shape `[rows, 1]`.
    Rows,
    /// So many elements of each row, whose number is a multiple. The scales have shape `[rows, groups]`.
    Groups(usize),
    /// Rectangles of these numbers of rows and columns, smaller at the edges. The scales have shape
    /// `[⌈rows / height⌉, ⌈columns / width⌉]`.
    Blocks([usize; 2]),
}

impl fmt::Display for Scales {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor => f.write_str("one scale"),
            Self::Rows => f.write_str("a scale a row"),
            Self::Groups(size) => write!(f, "groups of {size}"),
            Self::Blocks([height, width]) => write!(f, "blocks of {height} × {width}"),
        }
    }
}

impl Scales {
    /// Divides a matrix. An error names the encoding.
    pub(crate) fn grid(
        self,
        shape: [usize; 2],
        encoding: &impl Declared,
    ) -> Result<Grid, QuantError> {
        let [rows, columns] = shape;
        let [height, width] = match self {
            Self::Tensor => [rows, columns],
            Self::Rows => [1, columns],
            Self::Groups(size) => [1, size],
            Self::Blocks(block) => block,
        };
        if height == 0 || width == 0 {
            return Err(encoding.bad_setting("a scale belongs to at least one element"));
        }
        if matches!(self, Self::Groups(_)) && !columns.is_multiple_of(width) {
            let problem = format!("rows are whole numbers of groups of {width}");
            return Err(encoding.bad_shape(shape, problem));
        }
        Ok(Grid {
            height,
            width,
            across: columns.div_ceil(width),
            down: rows.div_ceil(height),
        })
    }
}

/// The rectangles of a matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    height: usize,
    width: usize,
    pub(crate) across: usize,
    pub(crate) down: usize,
}

impl Grid {
    /// Returns the number of elements of a row in one rectangle.
    pub(crate) fn width(self) -> usize {
        self.width
    }

    /// Returns the place of the first scale of a row.
    pub(crate) fn start(self, row: usize) -> usize {
        row / self.height * self.across
    }

    /// Takes the scales. A single one may have any shape of one element.
    pub(crate) fn take<'a>(
        self,
        name: &str,
        parts: &mut Parts<'a>,
    ) -> Result<Floats<'a>, QuantError> {
        let found = parts.shape(name).unwrap_or(&[]);
        let is_single = self.across * self.down == 1 && found.iter().product::<usize>() == 1;
        match is_single {
            true => parts.floats(name, found),
            false => parts.floats(name, &[self.down, self.across]),
        }
    }
}
