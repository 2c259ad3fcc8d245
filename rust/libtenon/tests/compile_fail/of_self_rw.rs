// memory of an object cannot be written to from outside in Rust
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[class]
    struct A(Shared<f32>);
    impl A {
    #[function("A.f(self) -> f32[?] of(self) rw")] //~
    fn f(&self) -> &Shared<f32> { &self.0 }
    }
}
fn main() {}
