//! Nearest neighbours, for the arrays of every framework: a k-d tree by hand, and that of the crate kiddo.
//!
//!   cargo build --release
//!
//! run.py uses it.
#![forbid(unsafe_code)]

mod tree;

/// Nearest neighbours.
#[tenon::module]
mod spatial {
    use std::num::NonZero;

    use kiddo::{ImmutableKdTree, SquaredEuclidean};
    use tenon::{Error, Kept, Out, Result, View};

    use crate::tree::Tree;

    /// A k-d tree on the caller's array, which it keeps. The array must not change.
    #[class]
    struct KDTree {
        points: Kept<f32, 2>,
        tree: Tree,
    }

    impl KDTree {
        #[function("KDTree(points: f32[n, d] keep, leaf: int = 16)")]
        fn new(points: Kept<f32, 2>, leaf: i64) -> Result<KDTree> {
            let cells = points.cells();
            let [n, d] = cells.shape();
            let leaf = usize::try_from(leaf).ok().filter(|leaf| *leaf > 0 && d > 0);
            let leaf = leaf.ok_or_else(|| Error::invalid("leaf must be at least 1, and points must have columns"))?;
            let tree = Tree::new(n, d, leaf, &|row, axis| cells.at([row, axis]));
            Ok(KDTree { points, tree })
        }

        /// The nearest k points to each row of x.
        #[function("KDTree.query(self, x: f32[m, d], k: int = 1) -> rows: i64[m, k], distance: f32[m, k]")]
        fn query(&self, x: View<f32, 2>, k: i64, mut rows: Out<i64>, mut distance: Out<f32>) -> Result<()> {
            let cells = self.points.cells();
            let ([n, d], [m, columns]) = (cells.shape(), x.shape());
            if columns != d {
                return Err(Error::invalid(format!("x has {columns} columns, and the points have {d}")));
            }
            let k = usize::try_from(k).ok().filter(|k| *k <= n);
            let k = k.ok_or_else(|| Error::invalid(format!("k must be at most {n}, the number of points")))?;
            for i in 0..m {
                let query: Vec<f32> = (0..d).map(|j| x[[i, j]]).collect();
                for (squared, row) in self.tree.nearest(&query, k, &|row, axis| cells.at([row, axis])) {
                    rows.push(row as i64);
                    distance.push(squared.sqrt());
                }
            }
            Ok(())
        }

        #[function("KDTree.points: f32[?, ?] of(self)")]
        fn points(&self) -> &Kept<f32, 2> {
            &self.points
        }

        #[function("KDTree.__len__(self) -> int")]
        fn len(&self) -> usize {
            self.points.shape()[0]
        }
    }

    /// The tree of the crate kiddo, for points in space.
    #[class(concurrent)]
    struct Kiddo(ImmutableKdTree<f32, 3>);

    impl Kiddo {
        #[function("Kiddo(points: f32[n, 3] c)")]
        fn new(points: &[f32]) -> Kiddo {
            let points: Vec<[f32; 3]> = points.chunks_exact(3).map(|p| [p[0], p[1], p[2]]).collect();
            Kiddo(ImmutableKdTree::new_from_slice(&points))
        }

        #[function("Kiddo.query(self, x: f32[m, 3] c, k: int = 1) -> rows: i64[m, k], distance: f32[m, k]")]
        fn query(&self, x: &[f32], k: i64, mut rows: Out<i64>, mut distance: Out<f32>) -> Result<()> {
            let Some(most) = usize::try_from(k).ok().and_then(NonZero::new) else {
                return Ok(()); // no neighbours
            };
            for p in x.chunks_exact(3) {
                for found in self.0.nearest_n::<SquaredEuclidean>(&[p[0], p[1], p[2]], most) {
                    rows.push(found.item as i64);
                    distance.push(found.distance.sqrt());
                }
            }
            Ok(())
        }
    }
}
