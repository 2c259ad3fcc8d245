//! The functions of NAME. `python -m tenon docs` prints the folder of the grammar of their signatures.
#![forbid(unsafe_code)]

/// Functions written once.
#[tenon::module]
mod NAME {
    use tenon::Out;

    /// Returns a*x + y.
    #[function("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]")]
    fn saxpy(a: f64, x: &[f32], y: &[f32], mut z: Out<f32>) {
        let a = a as f32;
        z.write_all(x.iter().zip(y).map(|(x, y)| a * x + y));
    }
}
