// it may share memory with another tensor of the call ('alias' or 'inplace'), so take `Cells` or `CellsMut`
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n] c rw alias, y: f32[n] c)")] //~
    fn f(_: CellsMut<f32, 1>, _: &[f32]) {}
}
fn main() {}
