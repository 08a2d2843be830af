demo check build format house asan exhaustive:
	./run $@
.PHONY: demo check build format house asan exhaustive
