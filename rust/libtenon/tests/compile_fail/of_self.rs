// return a reference to a `Kept` or a `Shared`
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[class]
    struct A(Vec<f32>);
    impl A {
    #[function("A.f(self) -> f32[?] of(self)")] //~
    fn f(&self) -> &[f32] { &self.0 }
    }
}
fn main() {}
