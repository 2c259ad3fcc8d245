// cannot be shared between threads safely
#![forbid(unsafe_code)]
#[tenon::module(private)] //~
mod kernels {
    struct Count(std::cell::Cell<i64>);
    #[state]
    fn load() -> tenon::Result<Count> {
        Ok(Count(std::cell::Cell::new(0)))
    }
}
fn main() {}
