(function () {
  "use strict";
  // Without this the page is complete: it adds a filter by name and by verdict, and words to marks that have none.
  var legend = document.querySelector(".legend");
  var rows = Array.from(document.querySelectorAll("tr[data-schedule]"));
  var wanted = "";
  var field = document.createElement("input");
  function show() {
    var name = field.value.toLowerCase();
    rows.forEach(function (row) {
      var named = row.dataset.schedule.toLowerCase().includes(name);
      var has = wanted === "" ? true : row.querySelector('[data-verdict="' + wanted + '"]') !== null;
      row.hidden = named ? !has : true;
    });
  }
  field.type = "search";
  field.className = "filter";
  field.placeholder = "Filter by name";
  field.setAttribute("aria-label", "Filter by name");
  field.addEventListener("input", show);
  if (rows.length > 1) {
    legend.querySelectorAll("li:not(.none)").forEach(function (item) {
      var button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "false");
      button.append.apply(button, Array.from(item.childNodes));
      button.addEventListener("click", function () {
        wanted = wanted === item.dataset.of ? "" : item.dataset.of;
        legend.querySelectorAll("button").forEach(function (other) {
          other.setAttribute("aria-pressed", String(other.parentNode.dataset.of === wanted));
        });
        show();
      });
      item.append(button);
    });
    legend.append(field);
  }
  document.addEventListener("mouseover", function (event) {
    var mark = event.target.closest("[data-verdict]");
    if (mark === null ? true : mark.querySelector("title") !== null) { return; }
    var data = mark.dataset;
    var title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    var plan = data.plan.replace("T", " ");
    var many = data.count === undefined ? plan + " " : data.count + " from " + plan + " on ";
    title.textContent = many + data.verdict + (data.reason === undefined ? "" : ": " + data.reason);
    mark.append(title);
  });
})();
