#!/bin/sh
# What is installed can be used from elsewhere: a consumer finds libplumb through pkg-config,
# also after the whole prefix was moved, and the program finds its scenarios.
set -eu
build=$(dirname "$PLUMB")
root=${PLUMB_SOURCE_DIR:?}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

if nm -P "$build/libplumb.a" | grep -q '^__asan_'; then
    echo "# a sanitizer build is not installed"
    exit 77
fi
cmake --install "$build" --prefix "$place/first" >"$place/log"
mv "$place/first" "$place/moved"
PKG_CONFIG_PATH=$(dirname "$(find "$place/moved" -name plumb.pc)")
export PKG_CONFIG_PATH

for package in plumb plumblab; do
    # shellcheck disable=SC2046 # flags are a list
    cc -std=c11 -Wall -Werror "$root/tests/house/consumer_$package.c" -o "$place/consumer" \
        $(pkg-config --cflags --libs "$package")
    "$place/consumer"
done
"$place/moved/bin/plumb" version
"$place/moved/bin/plumb" demo --list | grep '^frozen-scale '
for file in frozen-scale.yaml decoy.yaml; do
    test -r "$place/moved/share/plumb/demo/$file"
done
man=$(find "$place/moved" -name plumb-diagnose.1)
grep -q '^\.Nm plumb-diagnose' "$man"
for file in bash-completion/completions/plumb zsh/site-functions/_plumb \
    fish/vendor_completions.d/plumb.fish; do
    grep -q 'plumb completion\|completion --' "$place/moved/share/$file"
done
