//! A k-d tree of row numbers. It does not hold the points: `at` gives a coordinate of a row.

pub struct Tree {
    /// The middle row of a range splits the range, unless it is a leaf.
    rows: Vec<usize>,
    columns: usize,
    leaf: usize,
}

type At<'a> = &'a dyn Fn(usize, usize) -> f32;

impl Tree {
    pub fn new(count: usize, columns: usize, leaf: usize, at: At) -> Tree {
        fn build(rows: &mut [usize], axis: usize, columns: usize, leaf: usize, at: At) {
            if rows.len() <= leaf {
                return;
            }
            let middle = rows.len() / 2;
            rows.select_nth_unstable_by(middle, |a, b| at(*a, axis).total_cmp(&at(*b, axis)));
            let (before, after) = rows.split_at_mut(middle);
            build(before, (axis + 1) % columns, columns, leaf, at);
            build(&mut after[1..], (axis + 1) % columns, columns, leaf, at);
        }
        let mut rows: Vec<usize> = (0..count).collect();
        build(&mut rows, 0, columns, leaf, at);
        Tree { rows, columns, leaf }
    }

    /// The squared distances and rows of the nearest k points, in order.
    pub fn nearest(&self, query: &[f32], k: usize, at: At) -> Vec<(f32, usize)> {
        let mut best = Vec::with_capacity(k + 1);
        self.search(&self.rows, 0, query, k, at, &mut best);
        best
    }

    fn search(&self, rows: &[usize], axis: usize, query: &[f32], k: usize, at: At, best: &mut Vec<(f32, usize)>) {
        if rows.len() <= self.leaf {
            rows.iter().for_each(|row| self.offer(*row, query, k, at, best));
            return;
        }
        let middle = rows.len() / 2;
        let gap = query[axis] - at(rows[middle], axis);
        let (near, far) = match gap < 0.0 {
            true => (&rows[..middle], &rows[middle + 1..]),
            false => (&rows[middle + 1..], &rows[..middle]),
        };
        let next = (axis + 1) % self.columns;
        self.search(near, next, query, k, at, best);
        self.offer(rows[middle], query, k, at, best);
        if best.len() < k || best.last().is_some_and(|worst| gap * gap <= worst.0) {
            self.search(far, next, query, k, at, best);
        }
    }

    fn offer(&self, row: usize, query: &[f32], k: usize, at: At, best: &mut Vec<(f32, usize)>) {
        let squared = (0..self.columns).map(|j| (query[j] - at(row, j)).powi(2)).sum();
        let place = best.partition_point(|other| *other < (squared, row));
        if place < k {
            best.insert(place, (squared, row));
            best.truncate(k);
        }
    }
}
