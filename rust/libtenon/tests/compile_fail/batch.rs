// it has a batch, so take a `Batch` or a `BatchOut` of its items
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[**b, n])")] //~
    fn f(_: View<f32, 1>) {}
}
fn main() {}
