// `Rc<i64>` cannot be sent between threads safely
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[class]
    struct A(std::rc::Rc<i64>);
}
fn main() {}
