// What goes wrong from the first moment on.
window.wrong = [];
addEventListener('error', function (event) { wrong.push('error: ' + event.message); });
addEventListener('unhandledrejection', function (event) { wrong.push('rejection: ' + event.reason); });
document.addEventListener('securitypolicyviolation', function (event) {
    wrong.push('policy: ' + event.violatedDirective + ' ' + event.blockedURI);
});
['error', 'warn'].forEach(function (name) {
    console[name] = function () { wrong.push('console: ' + Array.from(arguments).join(' ')); };
});
